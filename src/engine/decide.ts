/** Decides about a request: from the lease, from a cached refusal, or without the store; otherwise it has to wait. */

import { newAllowanceUse, takeAllowance } from "../core/allowance.js";
import { COST_EXCEEDS_CAPACITY, INVALID_ARGUMENT, OK, STORE_UNAVAILABLE } from "../core/codes.js";
import {
  type CostProfile,
  checkAge,
  declaredCost,
  estimate,
  INVALID_COST,
  isCheckDue,
  learnedSizes,
} from "../core/cost.js";
import { mayWaitForStore, withoutStoreAllowance } from "../core/degradation.js";
import { isRefused, MISS, takeUncovered } from "../core/lease.js";
import type { Account, DecisionSource, Outcome } from "./account.js";
import { activate, knownNodes, type NodeState, urge } from "./node.js";

/** The request is decided. */
export const DECIDED = 0;
/** It is decided, and a sync should start. */
export const DECIDED_SYNC = 1;
/** The lease cannot pay: continue with `decideMiss`. */
export const MISSED = 2;
/** The request has to wait for a sync. */
export const WAIT = 3;

/** Requests that may wait for one account at a time. Further ones are decided without the store. */
const MAX_WAITERS = 10000;
/**
 * Refusals that may end before their retry time are cached this long at most: those of a limit of a value, because another
 * node may return tokens.
 */
export const BRIEF_REFUSAL_MS = 1000;
/** Retry-After of a refusal without the store. */
const STORE_RETRY_MS = 1000;

/** A dry run admits what the limit refuses, but not an invalid request. */
export function isAllowed(code: string, dryRun: boolean): boolean {
  return code === OK || (dryRun && code !== INVALID_ARGUMENT);
}

export function conclude(outcome: Outcome, source: DecisionSource, code: string, balance: number): void {
  outcome.code = code;
  outcome.balance = balance;
  outcome.source = source;
  outcome.allowed = isAllowed(code, outcome.account.limits.dryRun);
}

/** As `conclude` for a cost that the lease has paid. */
export function setPaid(outcome: Outcome, balance: number): void {
  outcome.code = OK;
  outcome.balance = balance;
  outcome.source = "local";
  outcome.allowed = true;
  outcome.retryAfterMs = 0;
}

/**
 * Prepares a record for one of the decisions below; a host may reuse the record. `profile`: the prices of the request's route;
 * without them those of the app apply.
 */
export function startDecision(outcome: Outcome, account: Account, method: string, profile?: CostProfile): void {
  outcome.account = account;
  outcome.method = method;
  outcome.profile = profile === undefined ? account.limits.profile : profile;
  outcome.retryAfterMs = 0;
}

/** Estimates the cost of a request and takes it from the lease. DECIDED, DECIDED_SYNC or MISSED. */
export function decide(node: NodeState, outcome: Outcome, contentLength: number): number {
  if (!estimateCost(node, outcome, contentLength)) return DECIDED;
  return takeFromLease(node, outcome, outcome.account, outcome.cost);
}

/** Sets the estimated cost. False if the request is invalid: then it is decided. */
export function estimateCost(node: NodeState, outcome: Outcome, contentLength: number): boolean {
  const { account, method, profile } = outcome;
  const learned = learnedSizes(account.learned, profile, method);
  if (isCheckDue(learned, node.clock)) checkAge(learned, node.clock);
  let cost = estimate(profile, method, contentLength, learned);
  if (cost === INVALID_COST) {
    outcome.cost = 0;
    conclude(outcome, "local", INVALID_ARGUMENT, account.cell.get());
    return false;
  }
  if (cost > Math.min(account.limits.burst, account.sync.limit)) cost = payableCost(outcome, contentLength, cost);
  outcome.cost = cost;
  return true;
}

/**
 * Lowers an estimate to what a full bucket can pay: sizes of earlier exchanges must not make a request impossible. The body
 * that the request declares is priced in full.
 */
function payableCost({ account, method, profile }: Outcome, contentLength: number, cost: number): number {
  const { burst } = account.limits;
  const { limit } = account.sync;
  const capacity = limit > 0 ? Math.min(limit, burst) : burst;
  return Math.min(cost, Math.max(declaredCost(profile, method, contentLength), capacity));
}

/** As `decide`, for a cost that the caller states. */
export function decideCost(node: NodeState, outcome: Outcome, cost: number): number {
  const account = outcome.account;
  // Negated, because a cost that is not a number compares with nothing.
  const invalid = !(cost >= 0);
  if (invalid || cost > account.limits.burst) {
    // A larger cost can never be paid, and the store may be unable to read it.
    outcome.cost = invalid ? 0 : account.limits.burst;
    conclude(outcome, "local", invalid ? INVALID_ARGUMENT : COST_EXCEEDS_CAPACITY, account.cell.get());
    return DECIDED;
  }
  outcome.cost = cost;
  return takeFromLease(node, outcome, account, cost);
}

/** Takes nothing; decides as for a request of one token, as far as this node knows. */
export function decideLook(outcome: Outcome, now: number): void {
  outcome.cost = 1;
  const balance = outcome.account.cell.get();
  if (balance > 0 || !decideCached(outcome, "cached", now)) conclude(outcome, "local", OK, balance);
  outcome.cost = 0;
}

function takeFromLease(node: NodeState, outcome: Outcome, account: Account, cost: number): number {
  const left = account.cell.take(cost);
  if (left === MISS) return MISSED;
  if (!account.active) activate(node, account);
  conclude(outcome, "local", OK, left);
  return isLow(node, account, left) ? DECIDED_SYNC : DECIDED;
}

/** The balance is below the low-water mark: tokens should be fetched before requests have to wait. */
export function isLow(node: NodeState, account: Account, balance: number): boolean {
  return balance < account.lease.target * node.options.lease.refillThreshold;
}

/** Whether a low balance lasts for two sync intervals: then the next message can include other apps as well. */
export function lastsUntilNextSync({ options }: NodeState, { waiters, lease, cell, sync }: Account): boolean {
  if (waiters.length > 0 || lease.spendRate < 0) return false;
  // Other nodes may need the tokens that this one returns.
  if (sync.recalled || lease.returned !== sync.reportedReturned) return false;
  return cell.get() * 1000 > lease.spendRate * 2 * options.lease.syncIntervalMs;
}

/** Decides about a request that the lease cannot pay. DECIDED, DECIDED_SYNC, or WAIT: then the host adds a waiter. */
export function decideMiss(node: NodeState, outcome: Outcome, now: number): number {
  const account = outcome.account;
  if (decideCached(outcome, "cached", now)) return DECIDED;
  if (node.closed) {
    refuseWithoutStore(outcome);
    return DECIDED;
  }
  urge(node, account);
  if (mayWaitForStore(node.level) && account.waiters.length < MAX_WAITERS) return WAIT;
  // This request does not wait, but later ones should find tokens as soon as the store grants some.
  account.lease.activeAt = now;
  decideWithoutStore(node, outcome, now);
  return DECIDED_SYNC;
}

/** Refuses a request for which a refusal is cached; false if none is. */
export function decideCached(outcome: Outcome, source: DecisionSource, now: number): boolean {
  const { lease, cell } = outcome.account;
  if (!isRefused(lease, outcome.cost, now)) return false;
  outcome.retryAfterMs = cachedRetryMs(outcome.account, now);
  conclude(outcome, source, lease.refusedCode, cell.get());
  return true;
}

/** Retry-After of a cached refusal. If the cost exceeds the capacity, waiting does not help. */
export function cachedRetryMs({ lease, sync }: Account, now: number): number {
  if (lease.refusedCode === COST_EXCEEDS_CAPACITY) return 0;
  return Math.ceil(Math.max(lease.refusedUntil, sync.retryAt) - now);
}

/** Admits what `onStoreFailure` allows, to be charged when the store is back; refuses the rest with 503. */
export function decideWithoutStore(node: NodeState, outcome: Outcome, now: number): void {
  const account = outcome.account;
  const { failOpenTokens } = node.options;
  const allowance = withoutStoreAllowance(account.limits, { failOpenTokens, liveNodes: knownNodes(node) });
  if (account.withoutStore === undefined) account.withoutStore = newAllowanceUse();
  if (!takeAllowance(account.withoutStore, allowance, outcome.cost, now)) {
    refuseWithoutStore(outcome);
    return;
  }
  const left = takeUncovered(account.cell, outcome.cost);
  activate(node, account);
  conclude(outcome, "without_store", OK, left);
}

function refuseWithoutStore(outcome: Outcome): void {
  outcome.retryAfterMs = STORE_RETRY_MS;
  conclude(outcome, "without_store", STORE_UNAVAILABLE, outcome.account.cell.get());
}
