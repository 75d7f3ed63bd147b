/** Several limits of one request: its tokens are taken from all of them, or from none. */
import { COST_EXCEEDS_CAPACITY, DENIED, OK, STORE_UNAVAILABLE } from "../core/codes.js";
import { declaredCost } from "../core/cost.js";
import { MISS } from "../core/lease.js";
import type { LimitRule } from "../limit-rules/limit-rules.js";
import type { Outcome } from "./account.js";
import { conclude, decideCached, setPaid } from "./decide.js";
import { remainingTokens } from "./remaining.js";

/** All leases could pay. */
export const ALL_TAKEN = -1;

/** What a request costs at one of its limits. Learned sizes must not make a request impossible, as for its app. */
export function costAtLimit(
  { countsCost, limits }: LimitRule,
  app: Pick<Outcome, "cost" | "profile" | "method">,
  contentLength: number,
): number {
  if (!countsCost) return 1;
  if (app.cost <= limits.burst) return app.cost;
  const declared = declaredCost(app.profile, app.method, contentLength);
  return Math.min(app.cost, Math.max(declared, limits.burst));
}

/** Takes the cost of each outcome from its lease. If one cannot pay, what was taken is put back; returns its index. */
export function takeTogether(outcomes: readonly Outcome[]): number {
  for (let i = 0; i < outcomes.length; i++) {
    const outcome = outcomes[i]!;
    const left = outcome.account.cell.take(outcome.cost);
    if (left === MISS) {
      for (let j = 0; j < i; j++) outcomes[j]!.account.cell.add(outcomes[j]!.cost);
      return i;
    }
    setPaid(outcome, left);
  }
  return ALL_TAKEN;
}

/**
 * Decides what is known to be refused before any tokens are taken: denied values, costs above the capacity of a limit, and
 * cached refusals. The other outcomes of such a request are neither paid nor refused. False if nothing is refused.
 */
export function refuseTogether(outcomes: readonly Outcome[], now: number): boolean {
  let refused = false;
  for (let i = 0; i < outcomes.length; i++) {
    const outcome = outcomes[i]!;
    const { account, cost } = outcome;
    const { limits, cell } = account;
    outcome.retryAfterMs = 0;
    conclude(outcome, "local", OK, cell.get());
    if (outcome.denied === true) conclude(outcome, "local", DENIED, cell.get());
    else if (limits.fillSeconds !== undefined && cost > limits.burst) {
      conclude(outcome, "local", COST_EXCEEDS_CAPACITY, cell.get());
    } else if (cell.get() < cost && !limits.dryRun) decideCached(outcome, "cached", now);
    if (!outcome.allowed) refused = true;
  }
  return refused;
}

/**
 * The outcome that decides about the request, as its index. Of several refusals: one that no waiting ends, then the one with
 * the longest wait; a missing store only if no limit refuses. Of an admitted request: a refusal of a dry run, then the
 * limit with the fewest tokens left.
 */
export function decisiveOutcome(outcomes: readonly Outcome[], now: number): number {
  let best = 0;
  let bestRank = rankOf(outcomes[0]!);
  for (let i = 1; i < outcomes.length; i++) {
    const rank = rankOf(outcomes[i]!);
    const isHigher = rank > bestRank;
    if (isHigher || (rank === bestRank && isBefore(outcomes[i]!, outcomes[best]!, now))) {
      best = i;
      bestRank = rank;
    }
  }
  return best;
}

const ADMITTED = 0;
const DRY_RUN = 1;
const NO_STORE = 2;
const REFUSED = 3;
const FINAL = 4;

function rankOf({ allowed, code, retryAfterMs }: Outcome): number {
  if (code === OK) return ADMITTED;
  if (allowed) return DRY_RUN;
  if (code === STORE_UNAVAILABLE) return NO_STORE;
  return retryAfterMs > 0 ? REFUSED : FINAL;
}

function isBefore(one: Outcome, other: Outcome, now: number): boolean {
  if (!one.allowed) return one.retryAfterMs > other.retryAfterMs;
  return remainingTokens(one.account, one.balance, now) < remainingTokens(other.account, other.balance, now);
}

/** Whether no limit refuses the request. */
export function allAllowed(outcomes: readonly Outcome[]): boolean {
  for (const { allowed } of outcomes) if (!allowed) return false;
  return true;
}
