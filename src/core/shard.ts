/** Shards: which part of the store holds an app, and shares of the cluster's capacity and rate. */
import { codeAt } from "./platform.js";

/** The most shards of a cluster. */
export const MAX_SHARDS = 256;
/** All of L1, in the unit of shares. The shares of all shards sum to at most this. */
export const WHOLE_SHARE = 1000000;
/** With several shards, one request may need at most this fraction of L1: the other shards keep the rest. */
export const LARGEST_NEED = 0.98;

const FACTOR = 65599;
/** The largest prime below 2^32. Products with FACTOR stay below 2^53. */
const MODULUS = 4294967291;

/** The shard of an app or descriptor limit. It never changes while the number of shards stays the same. */
export function shardOf(id: string, shards: number): number {
  if (shards === 1) return 0;
  let hash = 0;
  for (let i = 0; i < id.length; i++) hash = rest(hash * FACTOR + codeAt(id, i), MODULUS);
  return rest(hash, shards);
}

function rest(value: number, divisor: number): number {
  return value - Math.floor(value / divisor) * divisor;
}

/** The most tokens that one request may need of a cluster with this capacity. */
export function largestNeed(capacity: number, shards: number): number {
  return shards === 1 ? capacity : Math.floor(capacity * LARGEST_NEED);
}

/** The share of a shard that was never assigned another one. */
export function equalShare(shards: number): number {
  return Math.floor(WHOLE_SHARE / shards);
}
