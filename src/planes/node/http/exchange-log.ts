/** Log fields of a request that failed, without raw control characters. */
import type { GatewayError } from "../../../core/refusals.js";
import { printable } from "../../../shared/printable.js";
import { causeOf } from "../upstream/failures.js";
import type { Target, Upstream } from "../upstream/upstream.js";

export interface LoggedRequest {
  method: string;
  path: string;
  upstream: Upstream;
  target: Target | undefined;
  client: string;
}

export interface LoggedFailure {
  reason: GatewayError;
  cause?: unknown;
  retryOn?: Target | undefined;
}

export function requestFields({ method, path, upstream, target, client }: LoggedRequest): Record<string, unknown> {
  return { method, path: printable(path), upstream: upstream.name, target: target?.origin, client };
}

export function failureFields(request: LoggedRequest, failure: LoggedFailure): Record<string, unknown> {
  const fields: Record<string, unknown> = { reason: failure.reason, ...requestFields(request) };
  if (failure.cause !== undefined) fields.cause = causeOf(failure.cause);
  if (failure.retryOn !== undefined) fields.retry_on = failure.retryOn.origin;
  return fields;
}
