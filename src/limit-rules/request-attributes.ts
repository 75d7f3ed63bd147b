/** A request as limits see it. */
import type { CostProfile } from "../core/cost.js";

/** What decisions depend on besides app, method and length. Header names are in lower case. */
export interface RequestAttributes {
  app: string;
  /** "anonymous" without one. */
  user: string;
  method: string;
  /** As in the Host header. */
  host: string;
  /** As received; a query is ignored. */
  path: string;
  /** The path by which the server chose what serves the request, if it has rewritten `path`. */
  routedPath?: string | undefined;
  /** The client's address; may be invalid. */
  address: string;
  /** The prices of the request's route; unset: those of its app. */
  profile?: CostProfile | undefined;
  /** How often the header was sent: 0, 1, or 2 for more. */
  headerCount(name: string): number;
  /** The value of a header that was sent once. Each character is a byte. */
  header(name: string): string;
}
