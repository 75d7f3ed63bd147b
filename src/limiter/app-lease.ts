/** The lease of one app on this node, with the requests that wait for it. */
import type { CostProfile, LearnedSizes } from "../core/cost.js";
import { newLearnedSizes } from "../core/cost.js";
import { type Cell, type Lease, type LeasePolicy, newLease } from "../core/lease.js";
import type { AppPolicy } from "../quota/policy.js";
import type { Decision } from "./decision.js";

export type OnStoreFailure = "open" | "local" | "closed";

export interface LimitedApp extends AppPolicy {
  profile: CostProfile;
  onStoreFailure: OnStoreFailure;
}

/** A request that waits for the store. */
export interface Waiter {
  method: string;
  cost: number;
  /** Host milliseconds. */
  until: number;
  /** How many answers of the store have left it waiting. */
  rounds: number;
  answer(decision: Decision): void;
}

export interface AppLease {
  policy: LimitedApp;
  lease: Lease;
  cell: Cell;
  /** First come, first served. */
  waiters: Waiter[];
  waitingCost: number;
  /** On the list of apps that the next message may speak of. */
  touched: boolean;
  /** What the last booked message said of spending. */
  bookedSpent: number;
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

export function newAppLease(policy: LimitedApp, lease: LeasePolicy, now: number): AppLease {
  return {
    policy,
    lease: newLease(lease, now),
    cell: plainCell(),
    waiters: [],
    waitingCost: 0,
    touched: false,
    bookedSpent: 0,
    cautious: false,
    learned: new Map(),
    remaining: policy.burst,
    limit: policy.burst,
    heardAt: now,
    scarceAt: Number.NEGATIVE_INFINITY,
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
