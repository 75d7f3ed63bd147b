/** What the rules decided, in the words of Envoy's Rate Limit Service: a code, headers and a body; or that nobody can tell. */
import { OK, STORE_UNAVAILABLE } from "../../core/codes.js";
import {
  type AddHeader,
  ALL_HEADERS,
  type ClientDecision,
  decisionRefusal,
  headerWriter,
} from "../../core/refusals.js";
import type { DescriptorDecision, DescriptorStatus } from "../../descriptors/descriptor.js";
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
export function outcomeOf(
  request: RateLimitRequest,
  verdict: DescriptorDecision,
  withHeaders: boolean,
): RateLimitOutcome {
  const { statuses } = verdict;
  const at = decisive(statuses);
  const status = statuses[at];
  if (!verdict.allowed && status?.code === STORE_UNAVAILABLE) {
    throw new GrpcError(UNAVAILABLE, `${STORE_UNAVAILABLE}: the store does not answer`);
  }
  const code = status?.code ?? OK;
  const metadata = code === OK ? verdict.metadata : { ...verdict.metadata, code };
  const decision = status === undefined ? undefined : decisionOf(status, hitsOf(request, at), verdict.allowed);
  return {
    isOver: !verdict.allowed,
    statuses,
    headers: withHeaders && decision !== undefined ? headersOf(status!, decision) : [],
    body: verdict.allowed || decision === undefined ? "" : decisionRefusal(decision).body,
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

const addPair: AddHeader<[string, string][]> = (pairs, name, value) => {
  pairs.push([name, value]);
};
const writeHeaders = headerWriter(ALL_HEADERS, addPair);

function headersOf(status: DescriptorStatus, decision: ClientDecision): [string, string][] {
  const { limit, resetMs } = status;
  const name = limit === undefined ? "" : quoted(limit.name);
  const perUnit = String(decision.limit);
  const window = limit === undefined ? 0 : SECONDS[limit.unit];
  const texts = { limitText: perUnit, policy: `${name};q=${perUnit};w=${window}`, remainingPrefix: `${name};r=` };
  const headers: [string, string][] = [];
  writeHeaders(headers, decision, texts, Math.ceil(resetMs / 1000));
  // Envoy would send the body as plain text.
  if (!decision.allowed) headers.push(["content-type", "application/json"]);
  return headers;
}

/** A structured field's string; the names of rules may hold anything. */
function quoted(name: string): string {
  if (/^[A-Za-z0-9._:|-]+$/.test(name)) return `"${name}"`;
  return `"${name.replace(/[^ -~]/g, "?").replace(/["\\]/g, "\\$&") || "default"}"`;
}

function decisionOf(status: DescriptorStatus, cost: number, allowed: boolean): ClientDecision {
  const { code, limit, remaining, retryAfterMs, shadow } = status;
  return {
    allowed,
    code,
    dryRun: shadow,
    // Names of rules may contain anything.
    app: limit === undefined ? "" : JSON.stringify(limit.name).slice(1, -1),
    cost,
    remaining,
    limit: limit?.perUnit ?? 0,
    retryAfterMs,
  };
}
