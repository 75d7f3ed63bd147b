/** L3, the local lease: tokens a data plane was granted and may spend without asking. One atomic counter carries it. */
import { COST_EXCEEDS_CAPACITY, OK } from "./codes.js";
import { leaseFactor, reportFactor } from "./degradation.js";

/**
 * The balance of a lease: a counter that all workers of a data plane share and change atomically. nginx backs it by
 * shared memory, Node and an Envoy worker by a plain number. At rest it equals granted − returned − spent; below zero
 * it tells what was spent before it was granted.
 */
export interface Cell {
  /** Adds `delta` and answers the new value, in one step. */
  add(delta: number): number;
  get(): number;
}

export interface LeaseOptions {
  /** Tokens a lease holds at most while spending is slow. */
  reserve: number;
  /** Refill begins below this part of the target. */
  refillThreshold: number;
  /** A report is due after this time … */
  syncIntervalMs: number;
  /** … or after this many tokens spent. */
  batchThreshold: number;
  /** Tokens that nobody spent from for this long go back. */
  idleMs: number;
}

export const defaultLeaseOptions: LeaseOptions = {
  reserve: 1000,
  refillThreshold: 0.2,
  syncIntervalMs: 100,
  batchThreshold: 1000,
  idleMs: 1000,
};

/** All of a lease but its balance. Only the one who talks to the store changes it. Times are the host's milliseconds. */
export interface Lease {
  /** Cumulative in this epoch, as the store last said. */
  granted: number;
  /** Cumulative in this epoch. */
  returned: number;
  /** The balance to aim at. */
  target: number;
  /** Tokens per second, following the recent past; negative before the first measurement. */
  spendRate: number;
  spentAtReport: number;
  reportedAt: number;
  /** The last time that tokens were spent or wanted. */
  activeAt: number;
  /** A refusal stands from then … */
  refusedAt: number;
  /** … until then for requests that cost at least `refusedCost`. */
  refusedUntil: number;
  refusedCost: number;
  refusedCode: string;
}

export function newLease(policy: LeaseOptions, now: number): Lease {
  return {
    granted: 0,
    returned: 0,
    target: policy.reserve,
    spendRate: -1,
    spentAtReport: 0,
    reportedAt: now,
    activeAt: now,
    refusedAt: 0,
    refusedUntil: 0,
    refusedCost: 0,
    refusedCode: OK,
  };
}

/** Answered by `takeTokens` when the lease cannot pay. */
export const MISS = -1;

/**
 * Pays `cost` from the lease: what is left, or MISS with the balance as before. It looks before it takes, so that a
 * request that cannot be paid is never mistaken for spending. Where two workers take the last tokens at once, others
 * may for a moment see too low a balance and miss as well; no one ever sees too high a one.
 */
export function takeTokens(cell: Cell, cost: number): number {
  if (cost <= 0) return Math.max(cell.get(), 0);
  if (cell.get() >= cost) {
    const left = cell.add(-cost);
    if (left >= 0) return left;
    cell.add(cost);
  }
  return MISS;
}

/** Pays without cover, while the store is gone. The balance falls below zero; the store charges it on recovery. */
export function takeUncovered(cell: Cell, cost: number): number {
  return cell.add(-cost);
}

/**
 * Counts `cost` against an allowance of tokens per second, in a counter that begins at zero each second. False, with
 * nothing counted, when it would exceed the allowance.
 */
export function takeAllowance(usedThisSecond: Cell, allowance: number, cost: number): boolean {
  if (usedThisSecond.add(cost) <= allowance) return true;
  usedThisSecond.add(-cost);
  return false;
}

/** Charges (positive) or returns (negative) what the estimate was off by. Returned tokens end a remembered refusal. */
export function settleTokens(lease: Lease, cell: Cell, difference: number): void {
  if (difference === 0) return;
  cell.add(-difference);
  if (difference < 0) lease.refusedUntil = 0;
}

/** Tokens spent in this epoch, refunds deducted. */
export function spentTokens(lease: Lease, cell: Cell): number {
  return lease.granted - lease.returned - cell.get();
}

/**
 * True while a refusal of the store is remembered for a request of this cost: no need to ask again. A clock that
 * stepped back ends it, or it would stand too long.
 */
export function isRefused(lease: Lease, cost: number, now: number): boolean {
  return now >= lease.refusedAt && now < lease.refusedUntil && cost >= lease.refusedCost;
}

export function needsRefill(lease: Lease, cell: Cell, policy: LeaseOptions): boolean {
  return cell.get() < lease.target * policy.refillThreshold;
}

export function isReportDue(lease: Lease, cell: Cell, policy: LeaseOptions, level: number, now: number): boolean {
  const unreported = spentTokens(lease, cell) - lease.spentAtReport;
  if (unreported >= policy.batchThreshold) return true;
  const elapsed = now - lease.reportedAt;
  return unreported !== 0 && (elapsed < 0 || elapsed >= policy.syncIntervalMs * reportFactor(level));
}

/** Measurements over less than this are noise. */
const SHORTEST_MEASUREMENT_MS = 10;
/** The lease of a busy node covers this much of its spending … */
const BUSY_LEASE_SECONDS = 0.2;
/** … and that of a slow one this much, up to the reserve. */
const SLOW_LEASE_SECONDS = 1;

/** The balance to aim at: it follows the spending rate, and grows while the store answers slowly. */
function leaseTarget(spendRate: number, policy: LeaseOptions, level: number): number {
  const slow = Math.min(policy.reserve, spendRate * SLOW_LEASE_SECONDS);
  return Math.ceil(Math.max(slow, spendRate * BUSY_LEASE_SECONDS, 1) * leaseFactor(level));
}

/** What a data plane tells the store of one app, and asks of it. Counters are cumulative since the epoch began. */
export interface LeaseMessage {
  granted: number;
  spent: number;
  returned: number;
  /** Tokens without which the next waiting request cannot go on, beyond the balance. */
  need: number;
  /** Tokens that would be welcome, `need` included. */
  want: number;
}

/** Takes what the balance holds above `keep` out of it, to be returned. Answers how much that was. */
function drain(cell: Cell, keep: number): number {
  const extra = cell.get() - keep;
  if (extra <= 0) return 0;
  const left = cell.add(-extra);
  if (left >= keep) return extra;
  // Others took tokens in between: they keep them.
  const overdrawn = Math.min(extra, keep - left);
  cell.add(overdrawn);
  return extra - overdrawn;
}

/**
 * The message to send now. `nextCost` is the cost of the first request that waits, `waitingCost` of all of them; both
 * are 0 when none does. A lease that has been idle gives its tokens back.
 */
export function planSync(
  lease: Lease,
  cell: Cell,
  policy: LeaseOptions,
  level: number,
  nextCost: number,
  waitingCost: number,
  now: number,
): LeaseMessage {
  const spent = spentTokens(lease, cell);
  const elapsed = now - lease.reportedAt;
  const steppedBack = elapsed < 0;
  if (spent !== lease.spentAtReport || waitingCost > 0 || steppedBack) lease.activeAt = now;
  if (elapsed >= SHORTEST_MEASUREMENT_MS) {
    const measured = Math.max(((spent - lease.spentAtReport) * 1000) / elapsed, 0);
    lease.spendRate = lease.spendRate < 0 ? measured : (lease.spendRate + measured) / 2;
    lease.target = leaseTarget(lease.spendRate, policy, level);
  }
  if (elapsed >= SHORTEST_MEASUREMENT_MS || steppedBack) {
    lease.reportedAt = now;
    lease.spentAtReport = spent;
  }
  const idle = waitingCost === 0 && now - lease.activeAt >= policy.idleMs;
  if (idle) lease.returned = lease.returned + drain(cell, 0);
  // The balance may have moved since the first look: what is sent is taken from one look at it.
  const left = cell.get();
  const balance = Math.max(left, 0);
  const need = Math.max(nextCost - balance, 0);
  const wanted = idle ? 0 : waitingCost + lease.target - balance;
  return {
    granted: lease.granted,
    spent: Math.max(lease.granted - lease.returned - left, 0),
    returned: lease.returned,
    need,
    want: Math.max(need, wanted),
  };
}

/**
 * Books the store's answer. `granted` is cumulative, so that an answer that comes twice, or after a later one, adds
 * nothing; one that a later grant has overtaken says nothing any more. A refusal is remembered for requests that cost
 * at least `refusedCost`.
 */
export function applyReply(
  lease: Lease,
  cell: Cell,
  granted: number,
  code: string,
  retryAfterMs: number,
  refusedCost: number,
  now: number,
): void {
  const added = granted - lease.granted;
  if (added < 0) return;
  if (added > 0) {
    lease.granted = granted;
    cell.add(added);
  }
  if (code === OK) {
    lease.refusedUntil = 0;
  } else {
    // No waiting helps where the cost is above the capacity; it is asked again only for the case of a new config.
    lease.refusedAt = now;
    lease.refusedUntil = now + (code === COST_EXCEEDS_CAPACITY ? 1000 : Math.max(retryAfterMs, 1));
    lease.refusedCost = refusedCost;
  }
  lease.refusedCode = code;
}

/** Cuts the balance to a part of it, as an emergency demands; the rest goes back with the next message. */
export function cutLease(lease: Lease, cell: Cell, ratio: number): void {
  const balance = cell.get();
  if (balance > 0) lease.returned = lease.returned + drain(cell, Math.floor(balance * ratio));
}

/** Takes all that is left, for the last message before the data plane stops. */
export function returnAll(lease: Lease, cell: Cell): void {
  lease.returned = lease.returned + drain(cell, 0);
}

/**
 * Begins a new epoch: the tokens of the old one have gone back to the store already, so they are dropped here.
 * `reportedSpent` is what the last message that the store booked said; what was spent since then is owed in the new
 * epoch.
 */
export function beginEpoch(lease: Lease, cell: Cell, reportedSpent: number, now: number): void {
  cell.add(reportedSpent + lease.returned - lease.granted);
  lease.granted = 0;
  lease.returned = 0;
  lease.spentAtReport = 0;
  lease.reportedAt = now;
  lease.refusedUntil = 0;
}
