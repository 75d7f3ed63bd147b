/** Requests that wait for a sync reply: decided in order of arrival. */
import { OK } from "../core/codes.js";
import { isRefused, MISS } from "../core/lease.js";
import { type Account, type Outcome, PENDING, type Waiter } from "./account.js";
import { cachedRetryMs, conclude, decideWithoutStore } from "./decide.js";
import type { NodeState } from "./node.js";

/** A waiter that is still unpaid after this many short replies is refused. */
const MAX_SHORT_REPLIES = 2;

/** What a reply means for waiters. */
export interface ReplyToWaiters {
  /** OK, or the refusal of requests that cost at least `refusedCost`. */
  code: string;
  retryAfterMs: number;
  refusedCost: number;
  /** The store had too few tokens for the waiters in the message. */
  short: boolean;
}

export function newWaiter(outcome: Outcome, deadline: number): Waiter {
  outcome.code = PENDING;
  return { outcome, deadline, inMessage: false, shortReplies: 0, recalling: false };
}

export function addWaiter(account: Account, waiter: Waiter): void {
  account.waiters.push(waiter);
  account.waitingCost = account.waitingCost + waiter.outcome.cost;
}

/** Decides the waiters that the balance can pay or that the reply refuses. The others keep waiting. */
export function serveWaiters(node: NodeState, account: Account, reply: ReplyToWaiters): void {
  for (const waiter of takeWaiters(account)) {
    if (isServed(account, waiter, reply)) node.decided.push(waiter);
    else addWaiter(account, waiter);
  }
}

function isServed(account: Account, waiter: Waiter, reply: ReplyToWaiters): boolean {
  const outcome = waiter.outcome;
  const cost = outcome.cost;
  if (reply.short && waiter.inMessage) waiter.shortReplies = waiter.shortReplies + 1;
  const left = account.cell.take(cost);
  if (left !== MISS) {
    outcome.retryAfterMs = 0;
    conclude(outcome, "remote", OK, left);
  } else if (reply.code !== OK && cost >= reply.refusedCost) {
    outcome.retryAfterMs = reply.retryAfterMs;
    conclude(outcome, "remote", reply.code, account.cell.get());
  } else if (waiter.shortReplies >= MAX_SHORT_REPLIES) {
    refuseShort(account, waiter);
  } else return false;
  return true;
}

/** As `serveWaiters`, after another worker of the node has received the reply. */
export function serveFromLease(node: NodeState, account: Account, now: number): void {
  if (account.waiters.length === 0) return;
  const lease = account.lease;
  const refused = isRefused(lease, lease.refusedCost, now);
  serveWaiters(node, account, {
    code: refused ? lease.refusedCode : OK,
    retryAfterMs: refused ? cachedRetryMs(account, now) : 0,
    refusedCost: lease.refusedCost,
    short: false,
  });
}

/** Decides waiters whose deadline has passed: without the store, unless it has replied that it has no tokens. */
export function giveUpExpired(node: NodeState, account: Account, now: number): void {
  if (account.waiters.length === 0) return;
  for (const waiter of takeWaiters(account)) {
    if (waiter.deadline > now) addWaiter(account, waiter);
    else if (waiter.recalling) {
      refuseShort(account, waiter);
      node.decided.push(waiter);
    } else giveUpWaiter(node, waiter, now);
  }
}

function refuseShort(account: Account, { outcome }: Waiter): void {
  outcome.retryAfterMs = Math.ceil((outcome.cost / Math.max(account.limits.guaranteed, 1e-6)) * 1000);
  conclude(outcome, "remote", account.sync.shortCode, account.cell.get());
}

/** The store does not reply: decides all waiters of an account without it. */
export function giveUpAll(node: NodeState, account: Account, now: number): void {
  for (const waiter of takeWaiters(account)) giveUpWaiter(node, waiter, now);
}

function giveUpWaiter(node: NodeState, waiter: Waiter, now: number): void {
  decideWithoutStore(node, waiter.outcome, now);
  node.decided.push(waiter);
}

/** Empties the queue of an account and returns what was in it. */
export function takeWaiters<W extends Waiter>(account: Account<W>): W[] {
  const waiters = account.waiters;
  if (waiters.length > 0) {
    account.waiters = [];
    account.waitingCost = 0;
  }
  return waiters;
}
