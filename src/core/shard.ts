/** Shards: which part of the store holds an app, and shares of the cluster's capacity and rate. */
import { codeAt } from "./platform.js";

/** The most shards of a cluster. */
export const MAX_SHARDS = 256;
/** All of L1, in the unit of shares. The shares of all shards sum to at most this. */
export const WHOLE_SHARE = 1000000;

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

/** The share of a shard that was never assigned another one. */
export function equalShare(shards: number): number {
  return Math.floor(WHOLE_SHARE / shards);
}
