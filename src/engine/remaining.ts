/**
 * What is left for clients: the tokens on the lease, and the level of the bucket, which refills after the last reply.
 *
 * By what this node knows, the number is never too high; other nodes may take tokens after the last reply. If no other node
 * uses the bucket, it is the level in the store plus the lease.
 */
import { OK, QUOTA_EXHAUSTED, RECALLING } from "../core/codes.js";
import { emergencyRatio } from "../core/emergency.js";
import type { LeaseMessage } from "../core/lease.js";
import type { Account } from "./account.js";

/** The part of a sync reply that tells about the bucket. */
interface LevelReply {
  code: string;
  granted: number;
  remaining: number;
  limit: number;
  retryAfterMs: number;
}

/** The store shortens retry delays to this while other nodes hold tokens: then they do not tell how empty the bucket is. */
const SHORTENED_RETRY_MS = 1000;
/** Longer than the time to the next reply. */
const UNTIL_NEXT_REPLY_MS = 86400000;

/** Tokens that the store counts as held by this node. */
function heldTokens({ lease, sync }: Account): number {
  return Math.max(lease.granted - sync.reportedSpent - sync.reportedReturned, 0);
}

/** The level of the bucket. It refills up to its capacity, towards which the tokens count that nodes hold. */
function bucketLevel(account: Account, now: number): number {
  const { remaining, limit, rate, refillsFrom, elsewhere } = account.sync;
  const highest = limit - elsewhere - heldTokens(account);
  if (remaining >= highest) return Math.max(highest, 0);
  const gained = (Math.max(now - refillsFrom, 0) / 1000) * rate;
  const level = Math.min(remaining + gained, highest);
  // Refill above one second's worth repays debt first, which this node does not know.
  return account.limits.borrow ? Math.min(level, Math.max(rate, remaining)) : level;
}

/** Whole tokens left for clients, with `balance` tokens on the lease. A negative balance will be charged to the bucket. */
export function remainingTokens(account: Account, balance: number, now: number): number {
  const left = Math.min(balance + bucketLevel(account, now), account.sync.limit);
  return Math.max(Math.floor(left), 0);
}

/** When the level is above zero after a reply: a bucket without tokens may be overdrawn. */
function refillStart(rate: number, need: number, { code, remaining, retryAfterMs }: LevelReply, now: number): number {
  if (remaining > 0 || (code === OK && retryAfterMs === 0)) return now;
  const isUnknown = code === RECALLING || retryAfterMs === 0 || retryAfterMs === SHORTENED_RETRY_MS;
  if (isUnknown) return now + UNTIL_NEXT_REPLY_MS;
  // The bucket has the tokens that were asked for when the retry delay ends, unless another bucket is short.
  const isOwn = (code === OK || code === QUOTA_EXHAUSTED) && rate > 0;
  const gainedMs = isOwn ? (Math.max(need, 1) * 1000) / rate : 0;
  return now + Math.max(retryAfterMs - gainedMs, 0);
}

/**
 * The tokens that other nodes hold at most, by a reply that is about to be applied. What is missing from the bucket may be
 * held or spent. It was spent if the reply is as expected: nodes that took tokens meanwhile would have lowered the level.
 */
function heldElsewhere(
  account: Account,
  message: LeaseMessage,
  reply: LevelReply,
  isAlone: boolean,
  now: number,
): number {
  const { lease, sync, limits } = account;
  const held = Math.max(reply.granted - message.spent - message.returned, 0);
  const missing = Math.max(reply.limit - reply.remaining - held, 0);
  if (lease.granted === 0) return missing;
  // Grants and returns do not change the sum of the level and what this node holds.
  const expected = bucketLevel(account, now) + heldTokens(account) - (message.spent - sync.reportedSpent);
  if (!isAlone && reply.remaining + held < Math.floor(expected)) return Math.max(sync.elsewhere, missing);
  // In an emergency nodes may hold more than the capacity.
  return reply.limit < limits.burst ? sync.elsewhere : Math.min(sync.elsewhere, missing);
}

/** Records what a reply says about the bucket, before anything else of it is applied. `isAlone`: no other node is alive. */
export function recordLevel(
  account: Account,
  { message, reply, isAlone }: { message: LeaseMessage; reply: LevelReply; isAlone: boolean },
  now: number,
): void {
  const { sync } = account;
  sync.elsewhere = heldElsewhere(account, message, reply, isAlone, now);
  sync.remaining = reply.remaining;
  sync.refillsFrom = refillStart(sync.rate, message.need, reply, now);
  sync.repliedAt = now;
}

/** The bucket as it is in the store, with the tokens that all nodes hold. It may be overdrawn. */
export function recordBucket(account: Account, level: number, held: number, now: number): void {
  const { sync } = account;
  sync.remaining = Math.max(Math.floor(level), 0);
  sync.refillsFrom = level < 0 && sync.rate > 0 ? now - (level / sync.rate) * 1000 : now;
  sync.elsewhere = Math.max(held - heldTokens(account), 0);
}

/** What a service has left in its lease and in the bucket, at the time of its decision for this node. */
export function recordRemaining(
  account: Account,
  { remaining, limit, balance }: { remaining: number; limit: number; balance: number },
  now: number,
): void {
  const { sync } = account;
  sync.remaining = Math.max(remaining - Math.max(balance, 0), 0);
  sync.limit = limit;
  sync.refillsFrom = now;
  sync.elsewhere = Math.max(limit - sync.remaining - heldTokens(account), 0);
}

/** New limits, or the beginning or end of an emergency. Keeps what the bucket has gained so far. False if nothing changed. */
export function changeLimit(account: Account, emergency: boolean, now: number): boolean {
  const { sync, limits } = account;
  const ratio = emergency ? emergencyRatio(limits.priority) : 1;
  const limit = Math.floor(limits.burst * ratio);
  const rate = limits.guaranteed * ratio;
  if (limit === sync.limit && rate === sync.rate) return false;
  sync.remaining = Math.min(Math.floor(bucketLevel(account, now)), limit);
  sync.refillsFrom = Math.max(sync.refillsFrom, now);
  sync.limit = limit;
  sync.rate = rate;
  return true;
}
