/** What the rules decided, in the words of Envoy's Rate Limit Service: a code, headers and a body; or that nobody can tell. */
import { OK, STORE_UNAVAILABLE } from "../../core/codes.js";
import type { DescriptorStatus, Verdict } from "../../descriptors/rule-book.js";
import { SECONDS } from "../../descriptors/unit.js";
import { GrpcError, UNAVAILABLE } from "../grpc/status.js";
import type { RateLimitRequest } from "./messages.js";

export interface RateLimitOutcome {
  isOver: boolean;
  statuses: readonly DescriptorStatus[];
  /** For the client's response. */
  headers: [name: string, value: string][];
  /** The body of a refusal; empty where there is none. */
  body: string;
  /** For the filters after Envoy's own, and its logs. */
  metadata?: Record<string, unknown>;
}

/**
 * Throws UNAVAILABLE where the store did not answer and the policy does not let pass without it: that is not the client's
 * limit, so it must not be told 429. Envoy's `failure_mode_deny` then says what becomes of the request. Where another
 * descriptor is over its limit, that stands, whatever the store would have said.
 */
export function outcomeOf(request: RateLimitRequest, verdict: Verdict, withHeaders: boolean): RateLimitOutcome {
  const { statuses } = verdict;
  const at = decisive(statuses);
  const status = statuses[at];
  if (!verdict.allowed && status?.code === STORE_UNAVAILABLE) {
    throw new GrpcError(UNAVAILABLE, `${STORE_UNAVAILABLE}: the store does not answer`);
  }
  const code = status?.code ?? OK;
  const metadata = code === OK ? verdict.metadata : { ...verdict.metadata, code };
  return {
    isOver: !verdict.allowed,
    statuses,
    headers: withHeaders && status !== undefined ? headersOf(status, hitsOf(request, at), verdict.allowed) : [],
    body: verdict.allowed || status === undefined ? "" : bodyOf(status),
    ...(metadata === undefined ? {} : { metadata }),
  };
}

/** The first that is over its limit, else the first that the store could not decide, else the limited one with the least left. */
function decisive(statuses: readonly DescriptorStatus[]): number {
  let unknown = -1;
  let least = -1;
  for (let i = 0; i < statuses.length; i++) {
    const { allowed, code, limit, remaining } = statuses[i]!;
    if (!allowed && code !== STORE_UNAVAILABLE) return i;
    if (!allowed && unknown < 0) unknown = i;
    if (limit !== undefined && (least < 0 || remaining < statuses[least]!.remaining)) least = i;
  }
  return unknown >= 0 ? unknown : least;
}

function hitsOf({ descriptors, hits }: RateLimitRequest, at: number): number {
  const descriptor = descriptors[at];
  return descriptor?.negative === true ? 0 : (descriptor?.hits ?? hits);
}

const seconds = (milliseconds: number) => Math.ceil(milliseconds / 1000);

/** The names of the contract; see limiter/response.ts. */
function headersOf(status: DescriptorStatus, cost: number, allowed: boolean): [string, string][] {
  const { limit, remaining, resetMs, retryAfterMs, shadow, code } = status;
  const headers: [string, string][] = [["X-RateLimit-Cost", String(cost)]];
  if (limit !== undefined) {
    const { perUnit, unit } = limit;
    const name = quoted(limit.name);
    headers.push(["X-RateLimit-Limit", String(perUnit)]);
    headers.push(["X-RateLimit-Remaining", String(remaining)]);
    headers.push(["RateLimit-Policy", `${name};q=${perUnit};w=${SECONDS[unit]}`]);
    headers.push(["RateLimit", `${name};r=${remaining};t=${seconds(resetMs)}`]);
  }
  if (shadow) headers.push(["X-RateLimit-Dry-Run", code === OK ? "pass" : `would-refuse; reason=${code}`]);
  if (!allowed && retryAfterMs > 0) headers.push(["Retry-After", String(seconds(retryAfterMs))]);
  // Envoy would call the body plain text.
  if (!allowed) headers.push(["content-type", "application/json"]);
  return headers;
}

/** A structured field's string; the names of rules may hold anything. */
function quoted(name: string): string {
  if (/^[A-Za-z0-9._:|-]+$/.test(name)) return `"${name}"`;
  return `"${name.replace(/[^ -~]/g, "?").replace(/["\\]/g, "\\$&") || "default"}"`;
}

function bodyOf({ code, limit, remaining, retryAfterMs }: DescriptorStatus): string {
  return JSON.stringify({
    error: "rate_limit_exceeded",
    reason: code,
    app_id: limit?.name ?? "",
    retry_after: seconds(retryAfterMs),
    remaining,
    limit: limit?.perUnit ?? 0,
  });
}
