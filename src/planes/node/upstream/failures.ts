/** Failed attempts: what they mean for the client, whether they may be retried on another target, and how they are logged. */
import type { GatewayError } from "../../../core/refusals.js";
import { printable } from "../../../shared/printable.js";
import type { Target, Upstream } from "./upstream.js";

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

export function reasonOf({ code }: Failure, connected: boolean): GatewayError {
  // undici rejected a header that the parser had accepted.
  if (code === "UND_ERR_INVALID_ARG") return "malformed_request";
  if (code === "UND_ERR_CONNECT_TIMEOUT") return "upstream_connect_timeout";
  return connected ? "upstream_broken" : "upstream_unreachable";
}

export interface LoggedRequest {
  method: string;
  path: string;
  upstream: Upstream;
  target: Target | undefined;
  client: string;
}

/** Log fields without raw control characters. */
export function requestFields({ method, path, upstream, target, client }: LoggedRequest): Record<string, unknown> {
  return { method, path: printable(path), upstream: upstream.name, target: target?.origin, client };
}

export interface LoggedFailure {
  reason: GatewayError;
  cause?: unknown;
  retryOn?: Target | undefined;
}

export function failureFields(request: LoggedRequest, { reason, cause, retryOn }: LoggedFailure) {
  return {
    reason,
    ...requestFields(request),
    ...(cause !== undefined && { cause: causeOf(cause) }),
    ...(retryOn !== undefined && { retry_on: retryOn.origin }),
  };
}

function causeOf(error: unknown): string {
  return printable(error instanceof Error ? ((error as Failure).code ?? error.message) : String(error));
}
