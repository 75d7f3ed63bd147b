/** Applies a sync reply or a failed sync: grants, refusals, closed epochs, and the waiters that they decide. */
import { MICRO } from "../core/bucket.js";
import { COST_EXCEEDS_CAPACITY, EPOCH_CLOSED, OK, RECALLING } from "../core/codes.js";
import { STORE_ERROR, STORE_OK, STORE_TIMEOUT } from "../core/degradation.js";
import { applyReply, type LeaseMessage, type LeaseReply, spentTokens } from "../core/lease.js";
import { type Account, notShortAt, SHORT_GAP_MS } from "./account.js";
import { BRIEF_REFUSAL_MS } from "./decide.js";
import { closeEpoch, markReported } from "./epoch.js";
import { cutTo, setEmergency } from "./limit-changes.js";
import { backOff, callEnded, knownNodes, type NodeState, urge } from "./node.js";
import type { PlannedSync, SyncReply } from "./plan.js";
import { recordLevel } from "./remaining.js";
import { giveUpAll, serveWaiters } from "./waiters.js";

/** The part of a reply that concerns the whole node. */
export interface NodeReply {
  code: string;
  liveNodes: number;
  emergency: boolean;
  /** False if the store has no ledger of this node: it is new, or its data was lost. */
  known: boolean;
}

export interface ReceivedReply<A extends Account> {
  /** Lists all accounts of the node. */
  accounts: (this: void) => readonly A[];
  /** The message, with the replies about its accounts. */
  planned: PlannedSync<A>[];
  answer: NodeReply;
  /** When the message was sent. */
  started: number;
  now: number;
  /** The number of the next epoch, should this one be closed: see `newEpoch`. */
  nextEpoch: number;
}

/**
 * Applies a reply. Returns the accounts that changed: a host that shares them with other workers saves them before it
 * calls `serveReplies`.
 */
export function applyReplies<A extends Account>(node: NodeState<A>, received: ReceivedReply<A>): readonly A[] {
  const { planned, answer, started, now, nextEpoch } = received;
  callEnded(node, STORE_OK, started, now);
  node.failuresInARow = 0;
  node.lastContact = now;
  node.liveNodes = Math.max(answer.liveNodes, 1);
  if (answer.code === EPOCH_CLOSED) {
    const accounts = received.accounts();
    closeEpoch(node, { accounts, planned, now, nextEpoch });
    return accounts;
  }
  const changed =
    answer.emergency === node.emergency ? [] : setEmergency(node, received.accounts(), answer.emergency, now);
  if (!answer.known) reportAll(node, received.accounts());
  for (const one of planned) {
    if (one.reply !== undefined) applyAccountReply(node, one, one.reply, now);
    changed.push(one.account);
  }
  return changed;
}

/** The store has lost what it knew about this node: everything that it holds is reported again. */
function reportAll(node: NodeState, accounts: readonly Account[]): void {
  for (const account of accounts) {
    if (account.lease.granted > 0) {
      account.sync.unanswered = true;
      urge(node, account);
    }
  }
}

/** Decides waiters after `applyReplies`. */
export function serveReplies(node: NodeState, planned: PlannedSync[]): void {
  for (const { account, toWaiters } of planned) {
    if (toWaiters !== undefined) serveWaiters(node, account, toWaiters);
    if (account.waitingCost > 0) urge(node, account);
  }
}

/** Other nodes need tokens of an app: the next message reports, and returns what this node does not need at once. */
export function recallTokens(node: NodeState, account: Account): void {
  account.sync.plentiful = false;
  account.sync.recalled = true;
  if (account.active || hasTokens(account)) urge(node, account);
}

/** Tokens that the store counts as held by this node, or that wait to be returned. Another worker may have spent them. */
function hasTokens({ lease, sync, cell, refunds }: Account): boolean {
  return cell.get() !== 0 || spentTokens(lease, cell) !== sync.reportedSpent || refunds.get() !== 0;
}

export interface FailedSync {
  timedOut: boolean;
  started: number;
  now: number;
  /** From 0 to below 1; spreads the retries of many nodes. */
  random: number;
}

/**
 * No reply arrived: backs off, and decides all waiters without the store. The next message skips a number: so the store knows that
 * this node had to decide without it, even if it has received all messages.
 */
export function failSync(node: NodeState, { timedOut, started, now, random }: FailedSync): void {
  node.seq = node.seq + 1;
  callEnded(node, timedOut ? STORE_TIMEOUT : STORE_ERROR, started, now);
  backOff(node, random, now);
  for (const account of node.active) {
    giveUpAll(node, account, now);
    if (account.sync.unanswered) urge(node, account);
  }
}

function applyAccountReply(node: NodeState, planned: PlannedSync, reply: SyncReply, now: number): void {
  const { account, message } = planned;
  recordLevel(account, { message, reply, isAlone: knownNodes(node) === 1 }, now);
  markReported(account, message);
  if (account.finalReport !== undefined) applyFinalReply(account, account.finalReport, reply.granted, now);
  else if (planned.options !== node.options) applyOldReply(planned, reply, now);
  else applyCurrentReply(planned, reply, now);
}

function applyCurrentReply(planned: PlannedSync, reply: SyncReply, now: number): void {
  const { account, message, greedy, firstCost } = planned;
  const { sync, lease, syncCell, limits } = account;
  const granted = reply.granted - message.granted;
  sync.limit = reply.limit;
  if (reply.rate !== undefined && isOtherRate(reply.rate, sync.rate)) sync.rate = reply.rate;
  sync.plentiful = !reply.scarce;
  // L1 can be short as well, which `remaining` does not show.
  const empty = reply.remaining < Math.max(firstCost, 1) || sync.refusedAll;
  if (granted < message.want) sync.shortAt = now;
  const recalling = reply.code === RECALLING;
  if (recalling) for (const waiter of account.waiters) waiter.recalling = waiter.recalling || waiter.inMessage;
  // The sum that was asked for may exceed the capacity although no single request does.
  const refused = reply.code !== OK && reply.code !== COST_EXCEEDS_CAPACITY && !recalling;
  if (refused) sync.shortCode = reply.code;
  // All waiters were asked for at once: the first one may still be paid, so it is asked for alone, and at once.
  sync.firstOnly = reply.code !== OK && greedy;
  sync.refusedAll = refused && greedy;
  if (sync.firstOnly) sync.shortAt = notShortAt(now);
  const code = greedy || message.need === 0 || recalling ? OK : reply.code;
  const retryAfterMs = Math.max(reply.retryAfterMs, SHORT_GAP_MS);
  applyReply(lease, syncCell, { granted: reply.granted, code, retryAfterMs, refusedCost: firstCost }, now);
  sync.retryAt = code === OK ? 0 : now + reply.retryAfterMs;
  if (limits.fillSeconds !== undefined) lease.refusedUntil = Math.min(lease.refusedUntil, now + BRIEF_REFUSAL_MS);
  if (sync.firstOnly) return;
  // If the store granted all that was asked, an unpaid waiter says nothing about the limit: others took the tokens.
  const short = !recalling && (reply.code !== OK || (planned.partial && granted < message.want && empty));
  planned.toWaiters = { code, retryAfterMs: reply.retryAfterMs, refusedCost: firstCost, short };
}

/** Services state rates in whole micro-tokens. */
function isOtherRate(one: number, other: number): boolean {
  return Math.abs(one - other) > 2 / MICRO;
}

function grantOnly(granted: number): LeaseReply {
  return { granted, code: OK, retryAfterMs: 0, refusedCost: 0 };
}

/** A reply to a message under other options: tokens count as far as they fit, refusals do not. */
function applyOldReply(planned: PlannedSync, reply: SyncReply, now: number): void {
  const { account } = planned;
  const { sync, lease, syncCell } = account;
  applyReply(lease, syncCell, grantOnly(reply.granted), now);
  if (account.leaving) return;
  cutTo(account, sync.limit);
  sync.remaining = Math.min(reply.remaining, sync.limit);
  planned.toWaiters = { code: OK, retryAfterMs: 0, refusedCost: 0, short: false };
}

/** The store has deleted the node's counters of a descriptor limit, unless it still knew of tokens from a lost reply. */
function applyFinalReply(account: Account, report: LeaseMessage, granted: number, now: number): void {
  const { lease, sync, syncCell } = account;
  account.finalReport = undefined;
  if (granted !== report.granted) {
    applyReply(lease, syncCell, grantOnly(granted), now);
    return;
  }
  lease.granted = lease.granted - report.granted;
  lease.returned = lease.returned - report.returned;
  lease.spentAtReport = lease.spentAtReport - report.spent;
  sync.reportedSpent = 0;
  sync.reportedReturned = 0;
}
