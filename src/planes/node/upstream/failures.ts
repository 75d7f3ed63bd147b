/** What a failed attempt means: for the client, and for the question whether another target may be asked. */

import type { GatewayError } from "../../../core/refusals.js";
import { printable } from "../../../shared/printable.js";

export type Failure = Error & { code?: string };

/** How far an attempt had come. */
export interface Progress {
  /** The request was written, at least in part. */
  connected: boolean;
  /** The first byte of a response has been read. */
  responding: boolean;
  /** Some of the request's body was taken: it cannot be sent again. */
  bodyStarted: boolean;
}

/** RFC 9110, 9.2.2. */
const idempotent = new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"]);

/** True where no backend can do anything twice that matters. */
export function mayRepeat(method: string, { connected, responding, bodyStarted }: Progress): boolean {
  if (responding || bodyStarted) return false;
  return !connected || idempotent.has(method);
}

export function reasonOf({ code }: Failure, connected: boolean): GatewayError {
  // undici would not write it: the parser let pass what no backend should see.
  if (code === "UND_ERR_INVALID_ARG") return "malformed_request";
  if (code === "UND_ERR_CONNECT_TIMEOUT") return "upstream_connect_timeout";
  return connected ? "upstream_broken" : "upstream_unreachable";
}

export function causeOf(error: unknown): string {
  return printable(error instanceof Error ? ((error as Failure).code ?? error.message) : String(error));
}
