/** What a failed attempt means for the client, and whether the request may be retried on another target. */
import type { GatewayError } from "../../../core/refusals.js";
import { printable } from "../../../shared/printable.js";

export type Failure = Error & { code?: string };

/** RFC 9110, 9.2.2. */
const idempotent = new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"]);

/** Progress of an attempt. */
export interface Progress {
  /** The request was written, at least in part. */
  connected: boolean;
  /** The first byte of the response was read. */
  responding: boolean;
  /** A part of the request body was sent: it cannot be sent again. */
  bodyStarted: boolean;
}

/** True if a retry cannot make a backend do something twice. */
export function mayRepeat(method: string, { connected, responding, bodyStarted }: Progress): boolean {
  if (responding || bodyStarted) return false;
  return !connected || idempotent.has(method);
}

/** The process itself has no descriptors, memory or ports for a connection: that says nothing about the target. */
const ownShortages = new Set(["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EADDRNOTAVAIL"]);

export function reasonOf({ code = "" }: Failure, connected: boolean): GatewayError {
  if (ownShortages.has(code)) return "overloaded";
  // undici rejected a header that the parser had accepted.
  if (code === "UND_ERR_INVALID_ARG") return "malformed_request";
  if (code === "UND_ERR_CONNECT_TIMEOUT") return "upstream_connect_timeout";
  return connected ? "upstream_broken" : "upstream_unreachable";
}

/** Without raw control characters, for logs. */
export function causeOf(error: unknown): string {
  return printable(error instanceof Error ? ((error as Failure).code ?? error.message) : String(error));
}
