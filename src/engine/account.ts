/** The state of a node, and of the accounts on it: limits, lease, sync state and waiting requests. */

import type { AllowanceUse } from "../core/allowance.js";
import type { AppLimits } from "../core/app-limits.js";
import { OK, QUOTA_EXHAUSTED } from "../core/codes.js";
import type { CostProfile, LearnedSizesByMethod } from "../core/cost.js";
import type { Degradation } from "../core/degradation.js";
import {
  type BalanceCell,
  type Cell,
  type Lease,
  type LeaseMessage,
  type LeaseOptions,
  newLease,
  plainCell,
} from "../core/lease.js";
import type { LimitRule } from "../limit-rules/limit-rules.js";

/** Where a decision was made: from the lease, after a sync, from a cached refusal, or without the store. */
export type DecisionSource = "local" | "remote" | "cached" | "without_store";

/** The code of a request that still waits. */
export const PENDING = "";

/** The decision about one request. Hosts extend it by what they need until the exchange has ended, and may reuse it. */
export interface Outcome<A extends Account = Account> {
  account: A;
  method: string;
  /** The prices of the request: those of its route or its app. */
  profile: CostProfile;
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
  /** The limit; unset for the outcome of an app. */
  rule?: LimitRule | undefined;
  /** A list of the limit denies the value. */
  denied?: boolean | undefined;
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
  /** The store has replied that it recalls tokens of other nodes. */
  recalling: boolean;
}

/** What a node remembers between syncs about an account. Times are host milliseconds. */
export interface SyncState {
  /** Counters in the last message that the store has applied. */
  reportedSpent: number;
  reportedReturned: number;
  /** The last message has no reply yet. If it was lost, the store may have granted tokens that are unknown here. */
  unanswered: boolean;
  /** The highest `spent` that the store may know. What was spent beyond it is still held in the store's view. */
  sentSpent: number;
  /** The bucket was well filled at the last reply, and no tokens were recalled since. */
  plentiful: boolean;
  /** Other nodes need tokens: the next message returns what this one does not need at once. */
  recalled: boolean;
  /** The last message asked for all waiters and was refused: the next one asks for the first waiter only. */
  firstOnly: boolean;
  /** That was because of too few tokens, and none were recalled. */
  refusedAll: boolean;
  /** The level of the bucket in the last reply. */
  remaining: number;
  repliedAt: number;
  /** The capacity of the bucket and the tokens that it gains per second, both reduced in an emergency. */
  limit: number;
  rate: number;
  /** When the bucket starts to gain tokens after the last reply. */
  refillsFrom: number;
  /** Tokens of the bucket that other nodes hold, at most, as of the last reply. */
  elsewhere: number;
  /** When the store last granted less than wanted. */
  shortAt: number;
  /** When the store expects to have tokens again, as of the last refusal. A cached refusal may end earlier. */
  retryAt: number;
  /** The code of the last refusal; used for waiters that no reply decides. */
  shortCode: string;
}

export interface Account<W extends Waiter = Waiter> {
  /** The node on the shard that has the bucket. */
  node: NodeState;
  limits: AppLimits;
  lease: Lease;
  sync: SyncState;
  /** The balance as requests see it. */
  cell: BalanceCell;
  /** The same balance as syncs see it; another object only where several workers share the balance. */
  syncCell: Cell;
  /** Refunds that are not added to the balance, but returned to the bucket with the next message. */
  refunds: Cell;
  /** First come, first served. */
  waiters: W[];
  waitingCost: number;
  /** In the list of accounts that hold tokens or have something to report. */
  active: boolean;
  /** In the list of accounts that the next message includes, if it is due. */
  urgent: boolean;
  /** When the account is next examined, unless it is urgent. */
  lookAt: number;
  /** No longer configured: its tokens are returned and no new ones are taken. */
  leaving: boolean;
  /** The final report of a descriptor limit. It is repeated until a reply arrives; then the counters restart at zero. */
  finalReport: LeaseMessage | undefined;
  learned: LearnedSizesByMethod;
  /** For `takeAllowance`. Undefined until the store first fails to answer; most accounts never need it. */
  withoutStore: AllowanceUse | undefined;
}

export interface NodeOptions {
  lease: LeaseOptions;
  /** Maximum time that a decision or a call waits for the store. */
  timeoutMs: number;
  /** Cap on tokens per app and second without the store, if the app's `onStoreFailure` is "open" and it has no cap of its own. */
  failOpenTokens: number | undefined;
}

/** To each shard, a node is another one: with its own epoch, messages, degradation level and accounts. */
export interface NodeState<A extends Account = Account> {
  options: NodeOptions;
  /** The states of this node on all shards, this one included. */
  peers: NodeState<A>[];
  /** Its index in them. */
  shard: number;
  epoch: number;
  /** The number of the last message in this epoch. */
  seq: number;
  /** The store closed the epoch, and some messages of it are still unanswered: they are repeated before a new one. */
  epochClosed: boolean;
  /** Host milliseconds when the last message was planned, or later: the time for decisions that do not read the clock. */
  clock: number;
  syncs: number;
  failures: number;
  failuresInARow: number;
  /** No sync starts before this time. */
  retryAt: number;
  /** Time of the last reply; 0 before the first one. */
  lastContact: number;
  liveNodes: number;
  emergency: boolean;
  degradation: Degradation;
  /** The degradation level when it was last computed. */
  level: number;
  /** It shuts down: no message is sent, and no request waits. */
  closed: boolean;
  /** This process prepares a message or waits for its reply. */
  syncing: boolean;
  /** A message is sent after this turn of the event loop. */
  soon: boolean;
  /** Accounts that hold tokens or have something to report; examined once per sync interval. */
  active: A[];
  /** Accounts that need a message now: for waiting requests, a low balance, or tokens to return. */
  urgent: A[];
  /** When the active accounts are next examined. */
  scanAt: number;
  /** Leaving accounts about which everything was reported when the last message was planned. */
  departed: A[];
  /** Waiters whose outcome is decided and which the host has to wake. */
  decided: A["waiters"];
}

/** An account to which the store has just granted less than it wanted asks at most this often. */
export const SHORT_GAP_MS = 10;

export function notShortAt(now: number): number {
  return now - 2 * SHORT_GAP_MS;
}

/** The store has just granted less than wanted. A clock that was set back ends this, so that it cannot last too long. */
export function isShort(account: Account, now: number): boolean {
  const elapsed = now - account.sync.shortAt;
  return elapsed >= 0 && elapsed < SHORT_GAP_MS;
}

/** An account over plain counters. Hosts with other counters pass their cell, or replace the three cells. */
export function newAccount(limits: AppLimits, node: NodeState, now: number, cell = plainCell()): Account {
  const lease = newLease(node.options.lease, now);
  return {
    node,
    limits,
    lease,
    sync: {
      reportedSpent: 0,
      reportedReturned: 0,
      unanswered: false,
      sentSpent: 0,
      plentiful: true,
      recalled: false,
      firstOnly: false,
      refusedAll: false,
      remaining: limits.burst,
      repliedAt: now,
      limit: limits.burst,
      rate: limits.guaranteed,
      refillsFrom: now,
      elsewhere: 0,
      shortAt: notShortAt(now),
      retryAt: 0,
      shortCode: QUOTA_EXHAUSTED,
    },
    cell,
    syncCell: cell,
    refunds: plainCell(),
    waiters: [],
    waitingCost: 0,
    active: false,
    urgent: false,
    lookAt: 0,
    leaving: false,
    finalReport: undefined,
    learned: {},
    withoutStore: undefined,
  };
}

/** A record for one decision. */
export function newOutcome<A extends Account>(account: A, method: string, cost: number): Outcome<A> {
  const { profile } = account.limits;
  return {
    account,
    method,
    profile,
    cost,
    code: OK,
    allowed: false,
    source: "local",
    balance: 0,
    retryAfterMs: 0,
    rule: undefined,
    denied: false,
  };
}
