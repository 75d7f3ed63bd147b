/** The lease of one app on this node, with the requests that wait for it. */
import { QUOTA_EXHAUSTED } from "../core/codes.js";
import type { CostProfile, LearnedSizes } from "../core/cost.js";
import { newLearnedSizes } from "../core/cost.js";
import { type Cell, type Lease, type LeasePolicy, newLease, spentTokens } from "../core/lease.js";
import type { AppPolicy } from "../quota/policy.js";
import type { Decision } from "./decision.js";

export type OnStoreFailure = "open" | "local" | "closed";

export interface LimitedApp extends AppPolicy {
  profile: CostProfile;
  onStoreFailure: OnStoreFailure;
  /** Decides and records as ever, but lets pass what it would refuse. */
  dryRun: boolean;
}

/** A request that waits for the store. */
export interface Waiter {
  /** The app it came for: who pays may change while it waits. */
  asked: string;
  method: string;
  contentLength: number;
  cost: number;
  /** Host milliseconds. */
  until: number;
  /** How many answers of the store have left it waiting. */
  rounds: number;
  answer(decision: Decision): void;
}

export interface AppLease {
  policy: LimitedApp;
  /** Configured no more: whatever it holds goes back, and nothing new is taken. */
  leaving: boolean;
  lease: Lease;
  cell: Cell;
  /** First come, first served. */
  waiters: Waiter[];
  waitingCost: number;
  /** On the list of apps that the next message may speak of. */
  touched: boolean;
  /** What the last booked message said of spending, and of tokens given back. */
  bookedSpent: number;
  bookedReturned: number;
  /** The last message had no answer yet. If it got lost, the store may have granted tokens that nobody here knows of. */
  unanswered: boolean;
  /** The last message asked for all who wait and was refused: the next one asks for the first of them. */
  cautious: boolean;
  learned: Map<string, LearnedSizes>;
  /** The store's last word, for headers. */
  remaining: number;
  limit: number;
  /** Host milliseconds of the store's last word. */
  heardAt: number;
  /** When the store last gave less than was wanted: asking again at once would only cost calls. */
  scarceAt: number;
  /** Which layer was the last to have too little: the reason for those whom no answer has named one. */
  shortCode: string;
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
export function newAppLease(policy: LimitedApp, lease: LeasePolicy, now: number, before?: Counters): AppLease {
  const { granted, returned } = before ?? { granted: 0, returned: 0 };
  const spent = granted - returned;
  return {
    policy,
    leaving: false,
    lease: { ...newLease(lease, now), granted, returned, spentAtReport: spent },
    cell: plainCell(),
    waiters: [],
    waitingCost: 0,
    touched: false,
    bookedSpent: spent,
    bookedReturned: returned,
    unanswered: false,
    cautious: false,
    learned: new Map(),
    remaining: policy.burst,
    limit: policy.burst,
    heardAt: now,
    scarceAt: Number.NEGATIVE_INFINITY,
    shortCode: QUOTA_EXHAUSTED,
    dark: plainCell(),
    darkSecond: -1,
  };
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

/** Whether the store knows all of this app, and this node all that the store has granted it. */
export function isBooked({ lease, cell, bookedSpent, bookedReturned, unanswered }: AppLease): boolean {
  return !unanswered && spentTokens(lease, cell) === bookedSpent && lease.returned === bookedReturned;
}

/** Gives back what the lease holds above `most`, with the next message. */
export function cutTo({ lease, cell }: AppLease, most: number): void {
  const extra = cell.get() - most;
  if (extra <= 0) return;
  cell.add(-extra);
  lease.returned += extra;
}

/**
 * Refunds for what was spent in an epoch that the store has closed find no grant to be deducted from. They are dropped:
 * nobody may return more than was granted, and too little is never too much.
 */
export function dropOldRefunds({ lease, cell }: AppLease): void {
  const spent = spentTokens(lease, cell);
  if (spent < 0) cell.add(spent);
}

/** The limits have changed: no more tokens than they allow, and nothing remembered of what the old ones led to. */
export function refit(app: AppLease, limit: number, latestAnswer: number): void {
  cutTo(app, limit);
  app.limit = limit;
  app.remaining = Math.min(app.remaining, limit);
  app.lease.refusedUntil = 0;
  app.cautious = false;
  app.scarceAt = Number.NEGATIVE_INFINITY;
  app.shortCode = QUOTA_EXHAUSTED;
  for (const waiter of app.waiters) {
    // The answer on its way may be one to the old limits: it does not count.
    waiter.rounds = -1;
    waiter.until = Math.min(waiter.until, latestAnswer);
  }
}
