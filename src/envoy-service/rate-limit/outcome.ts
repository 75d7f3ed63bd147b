/** Turns a decision about descriptors into the content of a Rate Limit Service reply: code, headers and body. */
import { OK, STORE_UNAVAILABLE } from "../../core/codes.js";
import { decisionRefusal } from "../../core/refusals.js";
import {
  type AddHeader,
  type ClientDecision,
  type HeaderOptions,
  headerWriter,
  REQUESTS,
  TOKENS,
} from "../../core/response-headers.js";
import {
  type AppliedLimit,
  type DescriptorDecision,
  type DescriptorStatus,
  SECONDS,
} from "../../limiter/descriptors/descriptor.js";
import { APPS_DOMAIN } from "../../limiter/descriptors/limit-requests.js";
import { GrpcError, UNAVAILABLE } from "../grpc/status.js";
import type { RateLimitRequest } from "./request.js";

export interface RateLimitOutcome {
  isOver: boolean;
  statuses: readonly DescriptorStatus[];
  /** Added to the response of the client. */
  headers: [name: string, value: string][];
  /** Body of a refusal; otherwise empty. */
  body: string;
  /** Dynamic metadata for other filters and logs. */
  metadata?: Record<string, unknown>;
}

/** Refusals have Retry-After and a content type nevertheless. */
const NO_HEADERS: HeaderOptions = { xRateLimit: false, ietf: false };

/**
 * Throws UNAVAILABLE if a limit could not be decided without the store: the client has not exceeded a limit, so it must not
 * get a 429. Envoy's `failure_mode_deny` decides about the request. If another descriptor is over its limit, the request is
 * over limit regardless of the store.
 */
export function outcomeOf(
  request: RateLimitRequest,
  decision: DescriptorDecision,
  headers: HeaderOptions = NO_HEADERS,
): RateLimitOutcome {
  const { allowed, statuses } = decision;
  const at = decisiveIndex(statuses);
  const status = statuses[at];
  if (!allowed && status?.code === STORE_UNAVAILABLE) {
    throw new GrpcError(UNAVAILABLE, `${STORE_UNAVAILABLE}: the store is unavailable`);
  }
  const code = status?.code ?? OK;
  const metadata = metadataOf(request, decision.metadata, code);
  const shown = status === undefined ? undefined : clientDecision(status, hitsOf(request, at), allowed);
  return {
    isOver: !allowed,
    statuses,
    headers:
      status === undefined || shown === undefined
        ? []
        : headersOf(status, shown, headers, request.domain === APPS_DOMAIN ? TOKENS : REQUESTS),
    body: allowed || shown === undefined ? "" : decisionRefusal({ ...shown, app: escapedName(status) }).body,
    ...(metadata === undefined ? {} : { metadata }),
  };
}

/**
 * Like envoyproxy/ratelimit: the request, and under `metadata` the metadata of rules within their limit. Also the code of a
 * refusal. Undefined if there is neither.
 */
function metadataOf(request: RateLimitRequest, metadata: DescriptorDecision["metadata"], code: string) {
  if (metadata === undefined && code === OK) return undefined;
  const { domain, descriptors, hitsAddend } = request;
  return {
    domain,
    descriptors: descriptors.map(({ entries, override, hits }) => ({
      entries: entries.map(({ key, value }) => `${key}=${value}`),
      limit: override && `requests_per_unit:${override.perUnit} unit:${override.unit.toUpperCase()}`,
      hitsAddend: hits,
    })),
    hitsAddend: hitsAddend === 0 ? undefined : hitsAddend,
    metadata,
    code: code === OK ? undefined : code,
  };
}

/** Index of the first status over its limit, else of the first without the store, else of the one with the fewest tokens. */
function decisiveIndex(statuses: readonly DescriptorStatus[]): number {
  let undecided = -1;
  let least = -1;
  let fewest = Number.POSITIVE_INFINITY;
  for (const [i, { allowed, code, limit, remaining }] of statuses.entries()) {
    if (!allowed && code !== STORE_UNAVAILABLE) return i;
    if (!allowed && undecided < 0) undecided = i;
    if (limit !== undefined && remaining < fewest) [least, fewest] = [i, remaining];
  }
  return undecided >= 0 ? undecided : least;
}

function hitsOf({ descriptors, hits }: RateLimitRequest, at: number): number {
  const descriptor = descriptors[at];
  return descriptor?.negative === true ? 0 : (descriptor?.hits ?? hits);
}

const addPair: AddHeader<[string, string][]> = (pairs, name, value) => {
  pairs.push([name, value]);
};

const NO_OTHERS = { others: "", appPrefix: "", appRemaining: 0, appReset: 0 };

function headersOf(status: DescriptorStatus, decision: ClientDecision, options: HeaderOptions, unit: string) {
  const { limit, resetMs } = status;
  const { app: name } = decision;
  const burst = String(decision.limit);
  const window = limit === undefined ? 0 : windowSeconds(limit);
  const texts = {
    limitText: burst,
    policy: `${name};q=${burst};w=${window}${unit === REQUESTS ? "" : `;qu="${unit}"`}`,
    remainingPrefix: `${name};r=`,
  };
  const headers: [string, string][] = [];
  headerWriter(options, addPair)(headers, decision, { ...NO_OTHERS, ...texts }, Math.ceil(resetMs / 1000));
  // Envoy would send the body as plain text.
  if (!decision.allowed) headers.push(["content-type", "application/json"]);
  return headers;
}

/** The time in which an empty bucket fills, as in the headers of the other planes. */
function windowSeconds({ perUnit, unit, burst = perUnit }: AppliedLimit): number {
  const seconds = SECONDS[unit];
  return burst === perUnit ? seconds : Math.max(Math.ceil((burst / Math.max(perUnit, 1e-6)) * seconds), 1);
}

/** A string of a structured field. Names of rules may contain any character. */
function quoted(name: string): string {
  if (/^[A-Za-z0-9._:|-]+$/.test(name)) return `"${name}"`;
  return `"${name.replace(/[^ -~]/g, "?").replace(/["\\]/g, "\\$&") || "default"}"`;
}

/** Escaped, because names of rules may contain any character. */
function escapedName(status: DescriptorStatus | undefined): string {
  return status?.limit === undefined ? "" : JSON.stringify(status.limit.name).slice(1, -1);
}

/** With the name of the limit as in headers. */
function clientDecision(status: DescriptorStatus, cost: number, allowed: boolean): ClientDecision {
  const { code, limit, remaining, retryAfterMs, shadow } = status;
  return {
    allowed,
    code,
    dryRun: shadow,
    // Limits without a name have the IETF headers as well.
    app: limit === undefined ? "" : quoted(limit.name || (limit.label ?? "")),
    cost,
    remaining,
    limit: limit?.burst ?? limit?.perUnit ?? 0,
    retryAfterMs,
  };
}
