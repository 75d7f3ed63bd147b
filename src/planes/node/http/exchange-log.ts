/** How a request that went wrong is told of in the log: nothing in it is a raw control character. */

import type { GatewayError } from "../../../core/refusals.js";
import { printable } from "../../../shared/printable.js";
import type { ProxyLog } from "../options.js";
import { causeOf } from "../upstream/failures.js";
import type { Target, Upstream } from "../upstream/upstream.js";

export interface Told {
  method: string;
  path: string;
  upstream: Upstream;
  target: Target | undefined;
  client: string;
}

export function fieldsOf({ method, path, upstream, target, client }: Told): Record<string, unknown> {
  return { method, path: printable(path), upstream: upstream.name, target: target?.origin, client };
}

export function logFailure(
  log: ProxyLog,
  message: string,
  told: Told,
  failure: { reason: GatewayError; cause?: unknown; retryOn?: Target | undefined },
): void {
  const fields: Record<string, unknown> = { reason: failure.reason, ...fieldsOf(told) };
  if (failure.cause !== undefined) fields.cause = causeOf(failure.cause);
  if (failure.retryOn !== undefined) fields.retry_on = failure.retryOn.origin;
  log.warn(fields, message);
}
