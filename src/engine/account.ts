/** The account of one app on one node: its limits, lease, sync state and waiting requests. */
import { OK, QUOTA_EXHAUSTED } from "../core/codes.js";
import type { LearnedSizesByMethod } from "../core/cost.js";
import {
  type BalanceCell,
  type Cell,
  type Lease,
  type LeaseMessage,
  type LeaseOptions,
  newLease,
  plainCell,
} from "../core/lease.js";
import type { AppLimits } from "../core/limits.js";

/** Where a decision was made: from the lease, after a sync, from a cached refusal, or without the store. */
export type DecisionSource = "local" | "remote" | "cached" | "without_store";

/** The code of a request that still waits. */
export const PENDING = "";

/** The decision about one request. Hosts extend it by what they need until the exchange has ended, and may reuse it. */
export interface Outcome {
  account: Account;
  method: string;
  /** Tokens taken, or tokens that a refused request would have cost. */
  cost: number;
  /** PENDING, OK or the reason for a refusal. In a dry run a request is allowed with the code of its refusal. */
  code: string;
  allowed: boolean;
  source: DecisionSource;
  /** Tokens on the lease when the decision was made. */
  balance: number;
  /** 0 if waiting does not help or is not needed. */
  retryAfterMs: number;
}

/** A request that waits for a sync reply. */
export interface Waiter {
  outcome: Outcome;
  /** Host milliseconds. */
  deadline: number;
  /** A message that asks for its tokens has been sent. */
  inMessage: boolean;
  /** Replies to such messages that granted too little for it. */
  shortReplies: number;
}

/** Counters that start at zero each second, for the tokens admitted without the store. */
export interface SecondCounter {
  of(second: number): Cell;
}

/** What a node remembers between syncs about an account. Times are host milliseconds. */
export interface SyncState {
  /** Counters in the last message that the store has applied. */
  reportedSpent: number;
  reportedReturned: number;
  /** The last message has no reply yet. If it was lost, the store may have granted tokens that are unknown here. */
  unanswered: boolean;
  /** The last message asked for all waiters and was refused: the next one asks for the first waiter only. */
  firstOnly: boolean;
  /** From the last reply. */
  remaining: number;
  limit: number;
  repliedAt: number;
  /** When the store last granted less than wanted. */
  scarceAt: number;
  /** The code of the last refusal; used for waiters that no reply decides. */
  scarceCode: string;
}

export interface Account<W extends Waiter = Waiter> {
  limits: AppLimits;
  lease: Lease;
  sync: SyncState;
  /** The balance as requests see it. */
  cell: BalanceCell;
  /** The same balance as syncs see it; another object only where several workers share the balance. */
  syncCell: Cell;
  /** First come, first served. */
  waiters: W[];
  waitingCost: number;
  /** In the list of accounts that the next message may include. */
  active: boolean;
  /** No longer configured: its tokens are returned and no new ones are taken. */
  leaving: boolean;
  /** The final report of a descriptor limit. It is repeated until a reply arrives; then the counters restart at zero. */
  finalReport: LeaseMessage | undefined;
  learned: LearnedSizesByMethod;
  withoutStore: SecondCounter;
}

/** While tokens are scarce an account asks at most this often. */
export const SCARCE_GAP_MS = 10;

export function notScarceAt(now: number): number {
  return now - 2 * SCARCE_GAP_MS;
}

/** A clock that was set back ends scarcity, so that it cannot last too long. */
export function isScarce(account: Account, now: number): boolean {
  const elapsed = now - account.sync.scarceAt;
  return elapsed >= 0 && elapsed < SCARCE_GAP_MS;
}

function plainSecondCounter(): SecondCounter {
  let current = -1;
  let cell = plainCell();
  return {
    of(second: number): Cell {
      if (second !== current) {
        current = second;
        cell = plainCell();
      }
      return cell;
    },
  };
}

/** An account over plain counters. Hosts with other counters replace the three cells. */
export function newAccount(limits: AppLimits, options: LeaseOptions, now: number): Account {
  const lease = newLease(options, now);
  lease.target = firstTarget(limits, options);
  const cell = plainCell();
  return {
    limits,
    lease,
    sync: {
      reportedSpent: 0,
      reportedReturned: 0,
      unanswered: false,
      firstOnly: false,
      remaining: limits.burst,
      limit: limits.burst,
      repliedAt: now,
      scarceAt: notScarceAt(now),
      scarceCode: QUOTA_EXHAUSTED,
    },
    cell,
    syncCell: cell,
    waiters: [],
    waitingCost: 0,
    active: false,
    leaving: false,
    finalReport: undefined,
    learned: {},
    withoutStore: plainSecondCounter(),
  };
}

/** A record for one decision. */
export function newOutcome(account: Account, method: string, cost: number): Outcome {
  return { account, method, cost, code: OK, allowed: false, source: "local", balance: 0, retryAfterMs: 0 };
}

/** Descriptor limits may be small: their first lease holds one second's tokens, so that one node does not take all. */
export function firstTarget(limits: AppLimits, options: LeaseOptions): number {
  if (limits.fillSeconds === undefined) return options.reserve;
  return Math.min(options.reserve, Math.max(Math.ceil(limits.guaranteed), 1));
}
