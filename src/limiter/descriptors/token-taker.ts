/** Takes the tokens that a request needs: of all its limits, or of none. */
import { OK, STORE_UNAVAILABLE } from "../../core/codes.js";
import type { Clock } from "../../shared/clock.js";
import type { Decision, Limiter } from "../limiter.js";
import { type DescriptorDecision, type DescriptorStatus, perUnitOf } from "./descriptor.js";
import { type Found, isRequest, type LimitRequest } from "./limit-requests.js";

/** Undefined where no tokens are taken. */
type Decisions = readonly (Decision | undefined)[];

type Metadata = Record<string, unknown>;

export function createTokenTaker(limiter: Pick<Limiter, "take" | "giveBack" | "look" | "limits">, clock: Clock) {
  const { limits } = limiter;

  function giveBack({ bucket }: LimitRequest, hits: number, app: string): void {
    if (bucket === undefined) limiter.giveBack(app, hits);
    else limits.giveBack(bucket.account, hits);
  }

  /** Known without taking anything. The other limits of the request are then only read and do not wait for the store. */
  function isSureToRefuse(found: Found): boolean {
    if (!isRequest(found)) return !found.allowed;
    const { bucket, negative, hits } = found;
    if (bucket === undefined || negative || bucket.limit.shadow || bucket.limit.quota) return false;
    return hits > 0 && limits.isRefused(bucket.account, hits);
  }

  function decide(found: Found, onlyRead: boolean): Decision | Promise<Decision> | undefined {
    if (!isRequest(found)) return undefined;
    const { bucket, app, negative } = found;
    if (negative) return refund(found);
    if (found.hits === 0) return look(found);
    const hits = onlyRead && !isSureToRefuse(found) ? 0 : found.hits;
    return bucket === undefined ? limiter.take(app, hits) : limits.take(bucket.account, hits);
  }

  /** By the store, because another node may have taken the tokens. */
  function look({ bucket, app }: LimitRequest): Promise<Decision> {
    return bucket === undefined ? limiter.look(app) : limits.look(bucket.account);
  }

  async function refund(request: LimitRequest): Promise<Decision> {
    const { bucket, app, hits } = request;
    // Of an app at most what this node has spent: a caller must not create tokens of apps.
    if (bucket === undefined) limiter.giveBack(app, hits);
    const isDone = bucket === undefined || (await limits.refund(bucket.account, hits));
    const decision = await look(request);
    return isDone ? decision : { ...decision, allowed: false, code: STORE_UNAVAILABLE };
  }

  function result(all: readonly Found[], decisions: Decisions): DescriptorDecision {
    const allowed = isAllowed(all, decisions) && !all.some((found, i) => isLost(found, decisions[i]));
    const statuses = all.map((found, i) => {
      if (!isRequest(found)) return found;
      const decision = decisions[i]!;
      const back = !allowed && decision.code === OK && !found.negative ? decision.cost : 0;
      if (back > 0) giveBack(found, back, decision.app);
      return statusOf(found, decision, back);
    });
    const metadata = metadataOf(all, statuses);
    return { allowed, code: codeOf(allowed, statuses), statuses, ...(metadata === undefined ? {} : { metadata }) };
  }

  function statusOf(request: LimitRequest, decision: Decision, givenBack: number): DescriptorStatus {
    const { code, rate, limit: burst } = decision;
    const remaining = Math.min(Math.floor(decision.remaining) + givenBack, burst);
    const isReturned = request.negative && !isLost(request, decision);
    const allowed = decision.allowed || isReturned;
    const status: DescriptorStatus = {
      allowed,
      code: isReturned ? OK : code,
      unlimited: false,
      remaining,
      resetMs: rate > 0 ? Math.max(Math.ceil(((burst - remaining) / rate) * 1000), 0) : 0,
      retryAfterMs: allowed ? 0 : retryAfterMs(request, decision),
      shadow: decision.dryRun,
    };
    if (request.bucket !== undefined) status.limit = request.bucket.limit;
    // Empty for an unknown app, which has no limit.
    else if (decision.app !== "") status.limit = { name: decision.app, ...perUnitOf(rate), burst };
    return status;
  }

  /** A cached refusal is valid for a short time only: its own time may be long before the tokens are there. */
  function retryAfterMs({ bucket }: LimitRequest, { source, retryAfterMs: own }: Decision): number {
    if (bucket === undefined || own === 0) return own;
    const now = clock.now();
    if (source === "remote") bucket.retryAt = now + own;
    return source === "cached" ? Math.max(own, Math.ceil(bucket.retryAt - now)) : own;
  }

  return (all: readonly Found[]): DescriptorDecision | Promise<DescriptorDecision> => {
    const onlyRead = all.length > 1 && all.some(isSureToRefuse);
    const decisions = all.map((found) => decide(found, onlyRead));
    return decisions.some((decision) => decision instanceof Promise)
      ? Promise.all(decisions).then((settled) => result(all, settled))
      : result(all, decisions as Decisions);
  };
}

/** A refund for which the store did not reply. */
function isLost(found: Found, decision: Decision | undefined): boolean {
  return isRequest(found) && found.negative && decision?.code === STORE_UNAVAILABLE;
}

/** Every limit must allow the request, but of the limits in quota mode one is enough. */
function isAllowed(all: readonly Found[], decisions: Decisions): boolean {
  let quotas = 0;
  let allowedQuotas = 0;
  for (let i = 0; i < all.length; i++) {
    const found = all[i]!;
    if (isRequest(found) && found.negative) continue;
    const { allowed } = isRequest(found) ? decisions[i]! : found;
    if (isRequest(found) && found.bucket?.limit.quota === true) {
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

/** Metadata of the rules that are within their limit, also if another one refuses. The first value of a name is kept; objects are merged recursively. */
function metadataOf(all: readonly Found[], statuses: readonly DescriptorStatus[]): Metadata | undefined {
  let merged: Metadata | undefined;
  all.forEach((found, i) => {
    const metadata = isRequest(found) && statuses[i]!.allowed ? found.bucket?.limit.metadata : undefined;
    if (metadata !== undefined) merged = merge(merged ?? {}, metadata);
  });
  return merged;
}

function merge(first: Metadata, second: Metadata): Metadata {
  const merged = { ...first };
  for (const [name, value] of Object.entries(second)) {
    const before = Object.hasOwn(merged, name) ? merged[name] : undefined;
    if (before === undefined) merged[name] = value;
    else if (isObject(before) && isObject(value)) merged[name] = merge(before, value);
  }
  return merged;
}

function isObject(value: unknown): value is Metadata {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
