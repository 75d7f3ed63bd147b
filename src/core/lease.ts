/** Lease arithmetic (L3): tokens that a node was granted and may spend without a sync. The balance is one atomic counter. */
import { COST_EXCEEDS_CAPACITY, OK } from "./codes.js";
import { leaseFactor, reportFactor } from "./degradation.js";

/**
 * The balance of a lease, which all workers of a node change atomically: shared memory in nginx, a plain number elsewhere.
 * Without concurrent changes it equals granted − returned − spent. It is negative if tokens were spent before they were
 * granted.
 */
export interface Cell {
  /** Adds `delta` and returns the new value, in one step. */
  add(delta: number): number;
  get(): number;
}

/** The balance of a lease as requests use it. */
export interface BalanceCell extends Cell {
  /** Takes `cost` tokens and returns the balance, or returns MISS and takes nothing. */
  take(cost: number): number;
}

/** A counter of one process or worker. */
export function plainCell(): BalanceCell {
  let value = 0;
  return {
    add(delta: number): number {
      value = value + delta;
      return value;
    },
    get(): number {
      return value;
    },
    take(cost: number): number {
      if (cost <= 0) return Math.max(value, 0);
      if (value < cost) return MISS;
      value = value - cost;
      return value;
    },
  };
}

export interface LeaseOptions {
  /** Maximum tokens in a lease while spending is slow. */
  reserve: number;
  /** Refill when the balance is below this fraction of the target. */
  refillThreshold: number;
  /** Time between messages of a node, and between reports about an app while its tokens are scarce. */
  syncIntervalMs: number;
  /** While tokens are plentiful: a report is due after this many spent tokens … */
  batchThreshold: number;
  /** … and after this time. */
  reportIntervalMs: number;
  /** While tokens are plentiful: a lease that was unused for this long is returned. */
  idleMs: number;
}

export const defaultLeaseOptions: LeaseOptions = {
  reserve: 1000,
  refillThreshold: 0.2,
  syncIntervalMs: 100,
  batchThreshold: 1000,
  reportIntervalMs: 30000,
  idleMs: 90000,
};

/** A lease without its balance. Only the sync changes it. Times are host milliseconds. */
export interface Lease {
  /** Cumulative in this epoch, from the last reply. */
  granted: number;
  /** Cumulative in this epoch. */
  returned: number;
  /** The wanted balance. */
  target: number;
  /** Moving average in tokens per second; negative before the first measurement. */
  spendRate: number;
  spentAtReport: number;
  reportedAt: number;
  /** When tokens were last spent or needed. */
  activeAt: number;
  /** The cached refusal holds from `refusedAt` to `refusedUntil` for requests that cost at least `refusedCost`. */
  refusedAt: number;
  refusedUntil: number;
  refusedCost: number;
  refusedCode: string;
}

export function newLease(options: LeaseOptions, now: number): Lease {
  return {
    granted: 0,
    returned: 0,
    target: smallestLease(options),
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

/** Result of `takeTokens` if the lease cannot pay. */
export const MISS = -1;

/**
 * Takes `cost` from the balance and returns what is left, or returns MISS and changes nothing. It reads before it takes, so
 * that an unpaid request is never reported as spending. If two workers take the last tokens at once, others may briefly see
 * a balance that is too low, but never one that is too high.
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

/** Takes tokens that were not granted, while the store is unavailable. A negative balance is charged later. */
export function takeUncovered(cell: Cell, cost: number): number {
  return cell.add(-cost);
}

/** Tokens spent in this epoch, less refunds. */
export function spentTokens(lease: Lease, cell: Cell): number {
  return lease.granted - lease.returned - cell.get();
}

/**
 * Whether a refusal is cached for a request of this cost. A clock that was set back ends it, so that it cannot last too long.
 * Workers that share a lease see `refusedUntil` before the rest of its record: without a code there is no refusal yet.
 */
export function isRefused(lease: Lease, cost: number, now: number): boolean {
  const { refusedAt, refusedUntil, refusedCost, refusedCode } = lease;
  return now >= refusedAt && now < refusedUntil && cost >= refusedCost && refusedCode !== OK;
}

export function needsRefill(lease: Lease, cell: Cell, options: LeaseOptions): boolean {
  return cell.get() < lease.target * options.refillThreshold;
}

/** When something is decided about a lease, and by what. */
export interface LeaseSituation {
  options: LeaseOptions;
  /** The degradation level of the store. */
  level: number;
  /** The bucket of the app is well filled. */
  plentiful: boolean;
  /** Tokens that the bucket gains per second. */
  gain: number;
  /** Tokens that fit into the bucket. */
  capacity: number;
  /** It is a limit of a value, not of an app. */
  isLimit: boolean;
  now: number;
}

/**
 * There are many limits of values, and most are used rarely: while tokens are plentiful, they are reported and returned later.
 * What is not reported counts as held, so it makes no tokens.
 */
const LIMIT_PATIENCE = 10;

/** Time between reports about a lease. */
export function reportIntervalMs({ options, level, plentiful, isLimit }: LeaseSituation): number {
  if (!plentiful) return options.syncIntervalMs * reportFactor(level);
  return options.reportIntervalMs * (isLimit ? LIMIT_PATIENCE : 1) * reportFactor(level);
}

/** Time without use after which a lease is returned. */
export function idleMs({ options, isLimit }: LeaseSituation): number {
  return options.idleMs * (isLimit ? LIMIT_PATIENCE : 1);
}

/**
 * The bucket does not refill what it counts as held, so a node reports what is a noticeable part of the bucket, at most once
 * per REPORT_GAP_MS. Of values there are many: less accuracy saves reports.
 */
const REPORTED_PART = 0.05;
const REPORTED_PART_OF_VALUE = 0.25;
const REPORT_GAP_MS = 1000;

/** Whether unreported spending keeps a noticeable part of the bucket from refilling. */
function delaysRefill(unreported: number, elapsed: number, { capacity, isLimit }: LeaseSituation): boolean {
  const part = isLimit ? REPORTED_PART_OF_VALUE : REPORTED_PART;
  return unreported > 0 && unreported >= capacity * part && elapsed >= REPORT_GAP_MS;
}

/** Whether it is time to report what was spent, or to return tokens that are scarce and were not used. */
export function isReportDue(lease: Lease, cell: Cell, situation: LeaseSituation): boolean {
  const { options, plentiful, now } = situation;
  const unreported = spentTokens(lease, cell) - lease.spentAtReport;
  if (unreported >= options.batchThreshold) return true;
  if (unreported === 0 && (plentiful || cell.get() <= 0)) return false;
  const elapsed = now - lease.reportedAt;
  if (delaysRefill(unreported, elapsed, situation)) return true;
  return elapsed < 0 || elapsed >= reportIntervalMs(situation);
}

/** Shorter measurements are too noisy. */
const SHORTEST_MEASUREMENT_MS = 10;
const LONG_MEASUREMENT_MS = 1000;
/** While tokens are plentiful, the lease of a busy node lasts this long … */
const BUSY_LEASE_SECONDS = 1;
/** … and that of a slow one this long, up to the reserve. */
const SLOW_LEASE_SECONDS = 60;
/** A lease while tokens are scarce and the store is slow … */
const SHORT_LEASE_SECONDS = 0.2;
/** … and while it is not: others may need the tokens more. */
const SCARCE_LEASE_SECONDS = 0.03;
/** The smallest lease while tokens are plentiful: otherwise every request of a slow app would need a message. */
const SMALLEST_LEASE = 10;

function smallestLease({ reserve }: LeaseOptions): number {
  return Math.min(SMALLEST_LEASE, reserve);
}

/** The wanted balance: it follows the spending rate and the scarcity of tokens, and is larger while the store is slow. */
function leaseTarget(spendRate: number, situation: LeaseSituation): number {
  const { options, level, plentiful, gain } = situation;
  // While tokens are scarce, a node cannot go on spending more than the bucket gains: a burst must not keep tokens from others.
  const rate = Math.max(plentiful ? spendRate : Math.min(spendRate, gain), 0);
  const factor = leaseFactor(level);
  if (!plentiful && level === 0) return Math.floor(rate * SCARCE_LEASE_SECONDS);
  if (!plentiful) return Math.floor(rate * SHORT_LEASE_SECONDS * factor);
  const slow = Math.min(options.reserve, rate * SLOW_LEASE_SECONDS);
  return Math.ceil(Math.max(slow, rate * BUSY_LEASE_SECONDS, smallestLease(options)) * factor);
}

/** What a message reports and asks about one app. Counters are cumulative in the epoch. */
export interface LeaseMessage {
  granted: number;
  spent: number;
  returned: number;
  /** Tokens beyond the balance that waiting requests need: without them the message is refused. */
  need: number;
  /** Tokens to grant if available, including `need`. */
  want: number;
}

/** Takes what exceeds `keep` out of the balance, to be returned, and returns the amount. */
function drain(cell: Cell, keep: number): number {
  const extra = cell.get() - keep;
  if (extra <= 0) return 0;
  const left = cell.add(-extra);
  if (left >= keep) return extra;
  // Requests took tokens in between: they keep them.
  const overdrawn = Math.min(extra, keep - left);
  cell.add(overdrawn);
  return extra - overdrawn;
}

/** The cost of waiting requests; both are 0 if none waits. */
export interface Demand {
  /** What the message insists on. */
  nextCost: number;
  /** Of all waiting requests. */
  waitingCost: number;
}

/** Measures the rate of spending since the last report. Longer measurements replace the average. */
function measure(lease: Lease, spent: number, elapsed: number): void {
  const measured = Math.max(((spent - lease.spentAtReport) * 1000) / elapsed, 0);
  const replaces = lease.spendRate < 0 || elapsed >= LONG_MEASUREMENT_MS;
  lease.spendRate = replaces ? measured : (lease.spendRate + measured) / 2;
}

/** What a lease keeps: everything up to twice its target, but only what it will need at once while tokens are scarce. */
function keptTokens(lease: Lease, isUsed: boolean, situation: LeaseSituation): number {
  const { plentiful, now } = situation;
  if (now - lease.activeAt >= idleMs(situation)) return 0;
  if (plentiful) return lease.target * 2;
  return isUsed ? lease.target : 0;
}

/** The message to send now. Returns tokens that the lease does not need. */
export function planSync(lease: Lease, cell: Cell, demand: Demand, situation: LeaseSituation): LeaseMessage {
  const { nextCost, waitingCost } = demand;
  const { options, now } = situation;
  const spent = spentTokens(lease, cell);
  const elapsed = now - lease.reportedAt;
  const steppedBack = elapsed < 0;
  const hasSpent = spent !== lease.spentAtReport;
  if (hasSpent || waitingCost > 0 || steppedBack) lease.activeAt = now;
  if (elapsed >= SHORTEST_MEASUREMENT_MS) measure(lease, spent, elapsed);
  lease.target = leaseTarget(lease.spendRate, situation);
  if (elapsed >= SHORTEST_MEASUREMENT_MS || steppedBack) {
    lease.reportedAt = now;
    lease.spentAtReport = spent;
  }
  const isUsed = hasSpent || elapsed < options.syncIntervalMs;
  if (waitingCost === 0) lease.returned = lease.returned + drain(cell, keptTokens(lease, isUsed, situation));
  const idle = waitingCost === 0 && now - lease.activeAt >= idleMs(situation);
  // Read once: other workers may change the balance meanwhile, and the counters of a message must be consistent.
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

export interface LeaseReply {
  /** Cumulative in the epoch. */
  granted: number;
  code: string;
  retryAfterMs: number;
  /** A refusal is cached for requests that cost at least this much. */
  refusedCost: number;
}

/** Applies a reply. A repeated reply adds nothing and an outdated one is ignored, because `granted` is cumulative. */
export function applyReply(lease: Lease, cell: Cell, reply: LeaseReply, now: number): void {
  const { granted, code } = reply;
  const added = granted - lease.granted;
  if (added < 0) return;
  if (added > 0) {
    lease.granted = granted;
    cell.add(added);
  }
  // If the store granted less than wanted, the next refill is due when a part of that is left.
  lease.target = Math.min(lease.target, Math.max(cell.get(), 0));
  if (code === OK) {
    lease.refusedUntil = 0;
  } else {
    // Waiting does not help if the cost exceeds the capacity; it is asked again only because limits may change.
    lease.refusedAt = now;
    lease.refusedUntil = now + (code === COST_EXCEEDS_CAPACITY ? 1000 : Math.max(reply.retryAfterMs, 1));
    lease.refusedCost = reply.refusedCost;
  }
  lease.refusedCode = code;
}

/** Cuts the balance to a fraction, for an emergency; the rest is returned with the next message. */
export function cutLease(lease: Lease, cell: Cell, ratio: number): void {
  const balance = cell.get();
  if (balance > 0) lease.returned = lease.returned + drain(cell, Math.floor(balance * ratio));
}

/** Takes everything out of the balance, to be returned. */
export function returnAll(lease: Lease, cell: Cell): void {
  lease.returned = lease.returned + drain(cell, 0);
}

/**
 * Starts a new epoch. The store has already returned the tokens of the old one to the bucket, so they are dropped here.
 * Spending after the last applied message, which reported `reportedSpent`, is charged in the new epoch.
 */
export function beginEpoch(lease: Lease, cell: Cell, reportedSpent: number, now: number): void {
  cell.add(reportedSpent + lease.returned - lease.granted);
  lease.granted = 0;
  lease.returned = 0;
  lease.spentAtReport = 0;
  lease.reportedAt = now;
  lease.refusedUntil = 0;
}
