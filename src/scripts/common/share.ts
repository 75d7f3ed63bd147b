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
  /** The largest of these needs in the current round. */
  largest: number;
}

/** What the hash of a shard has besides its bucket. */
export interface Shard {
  share: Share;
  demand: Demand;
}

/** A single shard has all of L1, and nobody asks for its demand. */
export function readShard(redis: RedisApi, key: string, shards: number): Shard {
  if (shards === 1) {
    return { share: { capacity: WHOLE_SHARE, rate: WHOLE_SHARE }, demand: { taken: 0, refused: 0, largest: 0 } };
  }
  const fields = redis.call("HMGET", key, "share_capacity", "share_rate", "taken", "refused", "largest");
  const equal = equalShare(shards);
  return {
    share: { capacity: storedNumber(fields[0]!, equal), rate: storedNumber(fields[1]!, equal) },
    demand: {
      taken: storedNumber(fields[2]!, 0),
      refused: storedNumber(fields[3]!, 0),
      largest: storedNumber(fields[4]!, 0),
    },
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

/** A request needs more tokens than the bucket has. */
export function recordRefused(demand: Demand, tokens: number): void {
  demand.refused = demand.refused + tokens;
  demand.largest = Math.max(demand.largest, tokens);
}

/** A round of share changes: its number, and who runs it. Only the latest round may change the share of a shard. */
export interface Round {
  round: number;
  owner: string;
}

export function readRound(redis: RedisApi, key: string): Round {
  const fields = redis.call("HMGET", key, "round", "round_owner");
  return { round: storedNumber(fields[0]!, 0), owner: fields[1] === false ? "" : fields[1]! };
}

export function isSameRound(one: Round, other: Round): boolean {
  return one.round === other.round && one.owner === other.owner;
}

export function writeRound(redis: RedisApi, key: string, { round, owner }: Round): void {
  redis.call("HSET", key, "round", round, "round_owner", owner);
}
