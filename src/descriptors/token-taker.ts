/** Takes the tokens that a request needs: of all its limits, or of none. */
import { INVALID_IDENTITY, OK, STORE_UNAVAILABLE } from "../core/codes.js";
import type { Decision } from "../limiter/decision.js";
import type { Limiter } from "../limiter/limiter.js";
import type { Clock } from "../shared/clock.js";
import type { DescriptorDecision, DescriptorStatus } from "./descriptor.js";
import type { AppRequest, BucketRequest, LimitRequest } from "./limit-requests.js";
import { mergedMetadata } from "./metadata.js";

export interface TokenTakerOptions {
  limiter: Pick<Limiter, "take" | "giveBack" | "limits">;
  clock: Clock;
}

const NO_LIMIT: DescriptorStatus = {
  allowed: true,
  code: OK,
  unlimited: false,
  remaining: 0,
  resetMs: 0,
  retryAfterMs: 0,
  shadow: false,
};
const UNLIMITED: DescriptorStatus = { ...NO_LIMIT, unlimited: true };
const INVALID_APP: DescriptorStatus = { ...NO_LIMIT, allowed: false, code: INVALID_IDENTITY };

type Limited = BucketRequest | AppRequest;

export function createTokenTaker({ limiter, clock }: TokenTakerOptions) {
  const { limits } = limiter;

  function take(request: Limited, hits: number): Decision | Promise<Decision> {
    return request.kind === "app" ? limiter.take(request.app, hits) : limits.take(request.bucket.account, hits);
  }

  function giveBack(request: Limited, hits: number, app: string): void {
    if (request.kind === "app") limiter.giveBack(app, hits);
    else limits.giveBack(request.bucket.account, hits);
  }

  /** Known without taking anything. The other limits of the request are then only read and do not wait for the store. */
  function isSureToRefuse(request: LimitRequest): boolean {
    if (request.kind === "invalid_app") return true;
    if (request.kind !== "bucket" || request.negative || request.limit.shadow || request.limit.quota) return false;
    return request.hits > 0 && limits.isRefused(request.bucket.account, request.hits);
  }

  function decide(request: LimitRequest, onlyRead: boolean): Decision | Promise<Decision> | undefined {
    if (request.kind === "none" || request.kind === "invalid_app") return undefined;
    const { negative, hits } = request;
    if (negative) giveBack(request, hits, request.kind === "app" ? request.app : "");
    return take(request, negative || (onlyRead && !isSureToRefuse(request)) ? 0 : hits);
  }

  function result(requests: readonly LimitRequest[], decisions: readonly (Decision | undefined)[]): DescriptorDecision {
    const allowed = isAllowed(requests, decisions);
    const statuses = requests.map((request, i) => {
      if (request.kind === "none") return request.unlimited ? UNLIMITED : NO_LIMIT;
      if (request.kind === "invalid_app") return INVALID_APP;
      const decision = decisions[i]!;
      const back = !allowed && decision.code === OK && !request.negative ? decision.cost : 0;
      if (back > 0) giveBack(request, back, decision.app);
      return statusOf(request, decision, back);
    });
    const metadata = allowed ? metadataOf(requests, statuses) : undefined;
    return { allowed, code: codeOf(allowed, statuses), statuses, ...(metadata === undefined ? {} : { metadata }) };
  }

  function statusOf(request: Limited, decision: Decision, givenBack: number): DescriptorStatus {
    const { code, rate, limit: burst } = decision;
    const remaining = Math.min(Math.floor(decision.remaining) + givenBack, burst);
    const allowed = decision.allowed || request.negative;
    const status: DescriptorStatus = {
      allowed,
      code: request.negative ? OK : code,
      unlimited: false,
      remaining,
      resetMs: rate > 0 ? Math.max(Math.ceil(((burst - remaining) / rate) * 1000), 0) : 0,
      retryAfterMs: allowed ? 0 : retryAfterMs(request, decision),
      shadow: decision.dryRun,
    };
    if (request.kind === "bucket") status.limit = request.bucket.applied;
    // Empty for an unknown app, which has no limit.
    else if (decision.app !== "") status.limit = { name: decision.app, perUnit: burst, unit: "second" };
    return status;
  }

  /** A cached refusal is valid for a short time only: its own time may be long before the tokens are there. */
  function retryAfterMs(request: Limited, { source, retryAfterMs: own }: Decision): number {
    if (request.kind === "app" || own === 0) return own;
    const { bucket } = request;
    const now = clock.now();
    if (source === "remote") bucket.retryAt = now + own;
    return source === "cached" ? Math.max(own, Math.ceil(bucket.retryAt - now)) : own;
  }

  return (requests: readonly LimitRequest[]): DescriptorDecision | Promise<DescriptorDecision> => {
    const onlyRead = requests.length > 1 && requests.some(isSureToRefuse);
    const decisions = requests.map((request) => decide(request, onlyRead));
    return decisions.some((decision) => decision instanceof Promise)
      ? Promise.all(decisions).then((settled) => result(requests, settled))
      : result(requests, decisions as (Decision | undefined)[]);
  };
}

/** Every limit must allow the request, but of the limits in quota mode one is enough. */
function isAllowed(requests: readonly LimitRequest[], decisions: readonly (Decision | undefined)[]): boolean {
  let quotas = 0;
  let allowedQuotas = 0;
  for (let i = 0; i < requests.length; i++) {
    const request = requests[i]!;
    if (request.kind === "invalid_app") return false;
    if (request.kind === "none" || request.negative) continue;
    const { allowed } = decisions[i]!;
    if (request.kind === "bucket" && request.limit.quota) {
      quotas++;
      if (allowed) allowedQuotas++;
    } else if (!allowed) {
      return false;
    }
  }
  return quotas === 0 || allowedQuotas > 0;
}

/** The code of the first refusal by a limit; `store_unavailable` only if no limit refused. */
function codeOf(allowed: boolean, statuses: readonly DescriptorStatus[]): string {
  if (allowed) return OK;
  const refusals = statuses.filter((status) => !status.allowed);
  return (refusals.find(({ code }) => code !== STORE_UNAVAILABLE) ?? refusals[0])?.code ?? OK;
}

function metadataOf(requests: readonly LimitRequest[], statuses: readonly DescriptorStatus[]) {
  return mergedMetadata(
    requests.map((request, i) =>
      request.kind === "bucket" && statuses[i]!.allowed ? request.limit.metadata : undefined,
    ),
  );
}
