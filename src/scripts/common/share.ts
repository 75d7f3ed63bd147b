/** The share of a shard in the cluster's capacity and rate, the round that may change it, and the demand that it follows. */
import { MICRO } from "../../core/bucket.js";
import { storedNumber } from "../../core/platform.js";
import { equalShare, WHOLE_SHARE } from "../../core/shard.js";
import type { RedisApi } from "../redis-api.js";

/** In millionths of the cluster's capacity and rate. */
export interface Share {
  capacity: number;
  rate: number;
}

/** Cumulative tokens, so that a lost reply loses nothing. */
export interface Demand {
  /** Taken from the bucket, less what came back. */
  taken: number;
  /** Needed by requests while the bucket had too little. */
  refused: number;
}

/** What the hash of a shard has besides its bucket. */
export interface Shard {
  share: Share;
  demand: Demand;
}

/** A single shard has all of L1, and nobody asks for its demand. */
export function readShard(redis: RedisApi, key: string, shards: number): Shard {
  if (shards === 1) {
    return { share: { capacity: WHOLE_SHARE, rate: WHOLE_SHARE }, demand: { taken: 0, refused: 0 } };
  }
  const fields = redis.call("HMGET", key, "share_capacity", "share_rate", "taken", "refused");
  const equal = equalShare(shards);
  return {
    share: { capacity: storedNumber(fields[0], equal), rate: storedNumber(fields[1], equal) },
    demand: { taken: storedNumber(fields[2], 0), refused: storedNumber(fields[3], 0) },
  };
}

export function writeShare(redis: RedisApi, key: string, share: Share): void {
  redis.call("HSET", key, "share_capacity", share.capacity, "share_rate", share.rate);
}

/** Micro-tokens of a capacity in whole tokens: exact, because a share is in millionths as well. */
export function shareOfCapacity(capacity: number, share: Share): number {
  return capacity * share.capacity;
}

/** Of a rate in micro-tokens per second, rounded down. */
export function shareOfRate(rate: number, share: Share): number {
  return share.rate === WHOLE_SHARE ? rate : Math.floor((rate / MICRO) * share.rate);
}

/** Without a refusal for this long, in microseconds, the next one begins a new shortage. */
const SHORTAGE_END = 1000000;
/** At the beginning of a shortage requests wait for a larger share. Two rounds take less time. */
const AWAIT_SHARE = 800000;
/** A large need is remembered for twice its waiting time and this, in microseconds; at most ten minutes. */
const REMEMBERED = 10000000;
const LONGEST_REMEMBERED = 600000000;

/** A request that the shard's bucket cannot pay, although the cluster's could. */
export interface RefusedNeed {
  key: string;
  tokens: number;
  /** How long the bucket needs to fill, in milliseconds. */
  waitMs: number;
  /** Microseconds. */
  now: number;
}

/**
 * Records a need that the bucket could not pay. True at the beginning of a shortage: the request waits, because other shards
 * may have tokens, and the next round increases the share.
 */
export function recordRefused(redis: RedisApi, { demand, share }: Shard, need: RefusedNeed): boolean {
  const { key, tokens, waitMs, now } = need;
  demand.refused = demand.refused + tokens;
  const fields = redis.call("HMGET", key, "short_since", "short_at", "largest", "largest_until");
  const elapsed = now - storedNumber(fields[1], 0);
  const since = elapsed < 0 || elapsed > SHORTAGE_END ? now : storedNumber(fields[0], now);
  const before = now < storedNumber(fields[3], 0) ? storedNumber(fields[2], 0) : 0;
  redis.call("HSET", key, "short_since", since, "short_at", now);
  if (tokens >= before) {
    const until = now + Math.min(waitMs * 2000 + REMEMBERED, LONGEST_REMEMBERED);
    redis.call("HSET", key, "largest", tokens, "largest_until", until);
  }
  return share.capacity < WHOLE_SHARE && now - since < AWAIT_SHARE;
}

/** The largest need that was refused recently, in tokens. */
export function largestRefused(redis: RedisApi, key: string, now: number): number {
  const fields = redis.call("HMGET", key, "largest", "largest_until");
  return now < storedNumber(fields[1], 0) ? storedNumber(fields[0], 0) : 0;
}

/** A large need was paid: the share may become smaller. */
export function forgetLargest(redis: RedisApi, key: string): void {
  redis.call("HDEL", key, "largest", "largest_until");
}

/** A round of share changes: its number, and who runs it. Only the latest round may change the share of a shard. */
export interface ShareRound {
  round: number;
  owner: string;
}

export function readRound(redis: RedisApi, key: string): ShareRound {
  const fields = redis.call("HMGET", key, "round", "round_owner");
  return { round: storedNumber(fields[0], 0), owner: fields[1] === false ? "" : fields[1] };
}

export function isSameRound(one: ShareRound, other: ShareRound): boolean {
  return one.round === other.round && one.owner === other.owner;
}

export function writeRound(redis: RedisApi, key: string, { round, owner }: ShareRound): void {
  redis.call("HSET", key, "round", round, "round_owner", owner);
}
