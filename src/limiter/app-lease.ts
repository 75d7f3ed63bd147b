/** The lease of one app on this node, with the requests that wait for it. */

import { QUOTA_EXHAUSTED } from "../core/codes.js";
import type { LearnedSizes } from "../core/cost.js";
import { newLearnedSizes } from "../core/cost.js";
import { type Cell, type Lease, type LeaseMessage, type LeaseOptions, newLease } from "../core/lease.js";
import type { AppLimits } from "../core/limits.js";
import { newSyncState, notScarceAt, type SyncState } from "../core/sync.js";
import type { Decision } from "./decision.js";

/** A request that waits for the store. */
export interface Waiter {
  /** The app it came for: who pays may change while it waits. */
  asked: string;
  method: string;
  contentLength: number;
  cost: number;
  /** The cost is the caller's own; else it is priced anew where other rules come into force. */
  fixedCost: boolean;
  /** Clock milliseconds. */
  until: number;
  /** A message that asks for it, too, has been sent. */
  inMessage: boolean;
  /** How many answers to such messages left it waiting because the store had too little. */
  rounds: number;
  answer(decision: Decision): void;
}

export interface AppLease extends SyncState {
  policy: AppLimits;
  /** Configured no more: whatever it holds goes back, and nothing new is taken. */
  leaving: boolean;
  lease: Lease;
  cell: Cell;
  /** First come, first served. */
  waiters: Waiter[];
  waitingCost: number;
  /** On the list of apps that the next message may speak of. */
  touched: boolean;
  /** What was said last of a limit that is to be forgotten. It is repeated until it is answered; only then all begins anew. */
  lastWord?: LeaseMessage | undefined;
  learned: Map<string, LearnedSizes>;
  /** Tokens admitted without cover in the second `darkSecond`. */
  dark: Cell;
  darkSecond: number;
}

/** A counter of one process: JavaScript runs one step at a time, so a plain number is atomic. */
export function plainCell(): Cell {
  let value = 0;
  return {
    add(delta) {
      value += delta;
      return value;
    },
    get: () => value,
  };
}

/** What the store has on record for an app that this node held tokens of before. */
export interface Counters {
  granted: number;
  returned: number;
}

/** Counters in messages never begin anew within an epoch, so an app that comes back goes on from its old ones. */
export function newAppLease(policy: AppLimits, lease: LeaseOptions, now: number, before?: Counters): AppLease {
  const { granted, returned } = before ?? { granted: 0, returned: 0 };
  const spent = granted - returned;
  return {
    policy,
    leaving: false,
    lease: { ...newLease(lease, now), granted, returned, spentAtReport: spent, target: firstTarget(policy, lease) },
    cell: plainCell(),
    waiters: [],
    waitingCost: 0,
    touched: false,
    ...newSyncState(policy.burst, now),
    bookedSpent: spent,
    bookedReturned: returned,
    learned: new Map(),
    dark: plainCell(),
    darkSecond: -1,
  };
}

/** A limit of few tokens must not be stranded on the first node that asks: it begins with what a second brings. */
export function firstTarget({ guaranteed, fillSeconds }: AppLimits, { reserve }: LeaseOptions): number {
  return fillSeconds === undefined ? reserve : Math.min(reserve, Math.max(Math.ceil(guaranteed), 1));
}

/** Whether the store's ledger speaks of a limit that is to be forgotten there as well as here. */
export function hasLastWord({ policy, lease }: AppLease): boolean {
  return policy.fillSeconds !== undefined && lease.granted > 0;
}

/** The store has forgotten what this node had and spent of a limit: counters begin at zero. */
export function beginAnew(app: AppLease, said: LeaseMessage): void {
  app.lease.granted -= said.granted;
  app.lease.returned -= said.returned;
  app.lease.spentAtReport -= said.spent;
  app.bookedSpent = 0;
  app.bookedReturned = 0;
}

/** Sizes learned for a method. Methods that HTTP does not define share one memory, so that they cannot grow it. */
export function learnedSizes(app: AppLease, method: string): LearnedSizes {
  const name = Object.hasOwn(app.policy.profile.base, method) ? method : "other";
  let learned = app.learned.get(name);
  if (learned === undefined) {
    learned = newLearnedSizes();
    app.learned.set(name, learned);
  }
  return learned;
}

/** Gives back what the lease holds above `most`, with the next message. */
export function cutTo({ lease, cell }: AppLease, most: number): void {
  const extra = cell.get() - most;
  if (extra <= 0) return;
  cell.add(-extra);
  lease.returned += extra;
}

/** The limits have changed: no more tokens than they allow, and nothing remembered of what the old ones led to. */
export function refit(app: AppLease, limit: number, now: number, timeoutMs: number): void {
  cutTo(app, limit);
  app.limit = limit;
  app.remaining = Math.min(app.remaining, limit);
  app.lease.refusedUntil = 0;
  app.cautious = false;
  app.scarceAt = notScarceAt(now);
  app.shortCode = QUOTA_EXHAUSTED;
  for (const waiter of app.waiters) {
    // An answer on its way is one to the old limits: it does not count.
    waiter.inMessage = false;
    waiter.rounds = 0;
    waiter.until = Math.min(waiter.until, now + timeoutMs);
  }
}
