/** The conversation of a node with the store about one app: when there is something to say, what, and what the answer means. */
import { BORROW_RATIO } from "./borrow.js";
import { COST_EXCEEDS_CAPACITY, OK, QUOTA_EXHAUSTED } from "./codes.js";
import {
  applyReply,
  beginEpoch,
  type Cell,
  isRefused,
  isReportDue,
  type Lease,
  type LeaseMessage,
  type LeaseOptions,
  needsRefill,
  planSync,
  returnAll,
  spentTokens,
} from "./lease.js";

/** While the store gives less than is wanted, it is asked no more often: what trickles in is fetched in gulps. */
export const SCARCE_GAP_MS = 10;
/** A node that has nothing to say says so, this often. */
export const HEARTBEAT_MS = 1000;
/** Apps in one message at most. */
export const MAX_APPS_PER_MESSAGE = 400;

/** What a node remembers of its conversation about an app, beside the lease itself. Times are the host's milliseconds. */
export interface SyncState {
  /** What the last booked message said of spending, and of tokens given back. */
  bookedSpent: number;
  bookedReturned: number;
  /** The last message had no answer yet. If it got lost, the store may have granted tokens that nobody here knows of. */
  unanswered: boolean;
  /** The last message asked for all who wait and was refused: the next one asks for the first of them. */
  cautious: boolean;
  /** The store's last word. */
  remaining: number;
  limit: number;
  heardAt: number;
  /** When the store last gave less than was wanted: asking again at once would only cost calls. */
  scarceAt: number;
  /** Which layer was the last to have too little: the reason for those whom no answer has named one. */
  shortCode: string;
}

export function newSyncState(burst: number, now: number): SyncState {
  return {
    bookedSpent: 0,
    bookedReturned: 0,
    unanswered: false,
    cautious: false,
    remaining: burst,
    limit: burst,
    heardAt: now,
    scarceAt: notScarceAt(now),
    shortCode: QUOTA_EXHAUSTED,
  };
}

export interface PlannedSync {
  message: LeaseMessage;
  /** Cost of the cheapest refusal that the answer can mean. */
  firstCost: number;
  /** Asked for more than the first who waits. */
  greedy: boolean;
  /** Insisted on less than all who wait: the store was not expected to have it. */
  partial: boolean;
}

/** A clock that stepped back ends it, or it would last too long. */
export function isScarce(talk: SyncState, now: number): boolean {
  const elapsed = now - talk.scarceAt;
  return elapsed >= 0 && elapsed < SCARCE_GAP_MS;
}

/** Long enough ago. */
export function notScarceAt(now: number): number {
  return now - 2 * SCARCE_GAP_MS;
}

/** Whether the store has booked all there is to say, and this node knows all that the store has granted it. */
export function isBooked(talk: SyncState, lease: Lease, cell: Cell): boolean {
  return !talk.unanswered && spentTokens(lease, cell) === talk.bookedSpent && lease.returned === talk.bookedReturned;
}

/** Whether there is something to say about an app. `waiting` is the cost of all requests that wait, 0 for none. */
export function isDue(
  talk: SyncState,
  lease: Lease,
  cell: Cell,
  policy: LeaseOptions,
  level: number,
  waiting: number,
  now: number,
): boolean {
  // What is to go back, or is lost on the way, does not wait for the next spending: others may need it.
  if (talk.unanswered || lease.returned !== talk.bookedReturned) return true;
  if (isReportDue(lease, cell, policy, level, now)) return true;
  const scarce = isScarce(talk, now);
  if (waiting > 0) return !scarce;
  const active = now - lease.activeAt < policy.idleMs;
  if (active) return !scarce && needsRefill(lease, cell, policy) && !isRefused(lease, 1, now);
  return isLeavingDue(talk, lease, cell);
}

/** As `isDue`, of an app that is configured no more. */
export function isLeavingDue(talk: SyncState, lease: Lease, cell: Cell): boolean {
  return cell.get() !== 0 || !isBooked(talk, lease, cell);
}

/** Whether an app that has nothing to say will have nothing to say until it is used again. */
export function isAtRest(lease: Lease, cell: Cell, policy: LeaseOptions, waiting: number, now: number): boolean {
  return now - lease.activeAt >= policy.idleMs && cell.get() === 0 && waiting === 0;
}

/**
 * Refunds for what was spent in an epoch that the store has closed find no grant to be deducted from. They are dropped:
 * nobody may return more than was granted, and too little is never too much.
 */
export function dropOldRefunds(lease: Lease, cell: Cell): void {
  const spent = spentTokens(lease, cell);
  if (spent < 0) cell.add(spent);
}

/** The message about an app. `firstCost` is the cost of the first request that waits, `waiting` of all; 0 for none. */
export function planMessage(
  talk: SyncState,
  lease: Lease,
  cell: Cell,
  policy: LeaseOptions,
  level: number,
  guaranteed: number,
  borrow: boolean,
  firstCost: number,
  waiting: number,
  now: number,
): PlannedSync {
  dropOldRefunds(lease, cell);
  // All who wait are asked for at once, as far as the store is likely to have it; after a refusal only the first.
  const likely = talk.remaining + ((now - talk.heardAt) / 1000 + (borrow ? BORROW_RATIO : 0)) * guaranteed;
  const hoped = Math.floor(Math.min(waiting, likely + Math.max(cell.get(), 0)));
  const needed = talk.cautious ? firstCost : Math.max(firstCost, hoped);
  const message = planSync(lease, cell, policy, level, needed, waiting, now);
  return { message, firstCost, greedy: needed > firstCost, partial: needed < waiting };
}

/** Of an app that is leaving: everything goes back, nothing is asked for. */
export function planLastMessage(lease: Lease, cell: Cell): PlannedSync {
  dropOldRefunds(lease, cell);
  returnAll(lease, cell);
  const message = {
    granted: lease.granted,
    spent: Math.max(spentTokens(lease, cell), 0),
    returned: lease.returned,
    need: 0,
    want: 0,
  };
  return { message, firstCost: 0, greedy: false, partial: false };
}

/** What the store said about one app. */
export interface SyncReply {
  code: string;
  /** Cumulative in the node's epoch. */
  granted: number;
  remaining: number;
  limit: number;
  retryAfterMs: number;
}

/**
 * Books the answer. True when it decides about those who wait; false when they were asked for all at once and refused:
 * the first of them may still have a chance, so nothing is remembered and the question is asked anew.
 */
export function bookReply(
  talk: SyncState,
  lease: Lease,
  cell: Cell,
  planned: PlannedSync,
  reply: SyncReply,
  now: number,
): boolean {
  const message = planned.message;
  bookCounters(talk, message);
  talk.remaining = reply.remaining;
  talk.limit = reply.limit;
  talk.heardAt = now;
  if (reply.granted - message.granted < message.want) talk.scarceAt = now;
  // What is above the capacity is so for the sum that was asked for, not for the requests that it is the sum of.
  if (reply.code !== OK && reply.code !== COST_EXCEEDS_CAPACITY) talk.shortCode = reply.code;
  const tooMuchAsked = reply.code !== OK && planned.greedy;
  talk.cautious = tooMuchAsked;
  if (tooMuchAsked) talk.scarceAt = notScarceAt(now);
  const code = answerToWaiting(planned, reply);
  applyReply(lease, cell, reply.granted, code, Math.max(reply.retryAfterMs, SCARCE_GAP_MS), planned.firstCost, now);
  return !tooMuchAsked;
}

/** The store has the message, whatever it answered. */
export function bookCounters(talk: SyncState, message: LeaseMessage): void {
  talk.unanswered = false;
  talk.bookedSpent = message.spent;
  talk.bookedReturned = message.returned;
}

/** Goes on in a new epoch, as `beginEpoch` does. The store must have answered the last message about the app. */
export function renewSyncState(talk: SyncState, lease: Lease, cell: Cell, now: number): void {
  beginEpoch(lease, cell, talk.bookedSpent, now);
  talk.unanswered = false;
  talk.bookedSpent = 0;
  talk.bookedReturned = 0;
}

/** What the answer says to the first who waits. */
export function answerToWaiting(planned: PlannedSync, reply: SyncReply): string {
  return planned.greedy || planned.message.need === 0 ? OK : reply.code;
}

/**
 * Whether whoever the answer leaves unpaid, of those it was asked for, is so because the store had too little. Where it
 * gave all that it was asked for, somebody else had the tokens: what was spent without the store while it was slow, or
 * another worker. That says nothing about the limit.
 */
export function isShort({ message, partial }: PlannedSync, reply: SyncReply): boolean {
  return reply.code !== OK || (partial && reply.granted - message.granted < message.want);
}

/** After so many answers that were short a request that still waits is beyond what trickles in. */
export const MOST_SHORT_ANSWERS = 2;

/** When it may come again. */
export function waitForOwnRate(cost: number, guaranteed: number): number {
  return Math.ceil((cost / Math.max(guaranteed, 1e-6)) * 1000);
}
