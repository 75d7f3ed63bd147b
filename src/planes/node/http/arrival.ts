/** What a proxy knows about a request before it is admitted. */
import type { CostProfile } from "../../../core/cost.js";

/** The part of a request that a decision needs. */
export interface Arrival {
  method: string;
  /** Of the client's socket. */
  remoteAddress: string;
  /** The declared length of the body; 0: no body, UNKNOWN_LENGTH: chunked. */
  contentLength: number;
  /** As in the Host header; empty without one. */
  host?: string;
  /** Without the query. */
  path?: string;
  /** X-Forwarded-For of a trusted client; otherwise empty. */
  forwardedFor?: string;
  /** The prices of the route; unset: those of the app. */
  profile?: CostProfile | undefined;
  /** The values of a header in order, as received; several if it was sent more than once. `name` in lower case. */
  headerValues(name: string): string[];
}
