/** How the cluster's capacity and rate are divided among the shards: by demand, with a minimum by configured rates. */
import { LARGEST_NEED, WHOLE_SHARE } from "../core/shard.js";

/** What a round knows about one shard. Shares in millionths of L1. */
export interface ShardDemand {
  share: SharePair;
  /** Tokens per second that requests took or could not get, as a fraction of the cluster's rate. */
  wanted: number;
  /** Requests were refused because the shard's bucket was short. */
  isShort: boolean;
  /** The largest need that was refused and not paid since, as a fraction of the cluster's capacity. */
  largest: number;
  /** The configured rates of the shard's apps, as a fraction of those of all apps. */
  weight: number;
  /** The same as a fraction of the cluster's rate, or of all apps' rates if these are higher. */
  guaranteed: number;
}

export interface SharePair {
  capacity: number;
  rate: number;
}

/** Of the rate, this fraction is divided by weight, so that an idle shard can start. The rest follows demand. */
const RATE_BY_WEIGHT = 0.02;
/** Of the capacity more, because a bucket that is full costs nothing … */
const CAPACITY_BY_WEIGHT = 0.25;
/** … but less while a shard needs nearly all of it for one request. */
const LEAST_CAPACITY_BY_WEIGHT = 1 - LARGEST_NEED;
/** A shard gets capacity for this many seconds of its demand, as far as there is some. */
const CAPACITY_SECONDS = 1;
/** A shard gets this much more rate than it used, as far as there is some. */
const HEADROOM = 1.25;
/** A shard that uses more than this fraction of its rate may soon be short. */
const TIGHT = 0.7;
/** Smaller changes than this fraction of an equal share are not made. */
const SMALLEST_CHANGE = 0.02;

/** Whether the current shares need a change. */
export function isRebalanceDue(shards: ShardDemand[], pool: SharePair): boolean {
  const { capacity, rate } = sumOf(shards.map(({ share }) => share));
  if (capacity > pool.capacity || rate > pool.rate) return true;
  const unused = Math.min(pool.capacity - capacity, pool.rate - rate);
  if (unused > SMALLEST_CHANGE * WHOLE_SHARE) return true;
  return shards.some(
    ({ isShort, wanted, largest, share }) =>
      isShort || wanted * WHOLE_SHARE > share.rate * TIGHT || largest * WHOLE_SHARE > share.capacity,
  );
}

/**
 * New shares that sum to at most the pool, which is what these shards may have together.
 * @param fillSeconds the cluster's capacity ÷ its rate
 */
export function targetShares(shards: ShardDemand[], pool: SharePair, fillSeconds: number): SharePair[] {
  const wantedRate: Wanted = (shard) => shard.wanted * WHOLE_SHARE;
  const rates = divide(shards, pool.rate, { byWeight: RATE_BY_WEIGHT, wantedOf: wantedRate, headroom: HEADROOM });
  const ofDemand = (wanted: number) => Math.min((wanted * CAPACITY_SECONDS) / fillSeconds, 1);
  const wantedCapacity: Wanted = (shard) => Math.max(ofDemand(shard.wanted) * WHOLE_SHARE, largestShare(shard));
  const wanted = { wantedOf: wantedCapacity, headroom: 1 };
  const usual = divide(shards, pool.capacity, { byWeight: CAPACITY_BY_WEIGHT, ...wanted });
  const isEnough = shards.every((shard, i) => (usual[i] as number) >= largestShare(shard));
  const capacities = isEnough
    ? usual
    : divide(shards, pool.capacity, { byWeight: LEAST_CAPACITY_BY_WEIGHT, ...wanted });
  const targets = shards.map((_, i) => ({
    capacity: Math.floor(capacities[i] as number),
    rate: Math.floor(rates[i] as number),
  }));
  // Small changes are not worth a call, unless the sum requires them.
  const least = (SMALLEST_CHANGE * WHOLE_SHARE) / shards.length;
  const settle = (before: number, next: number) => (Math.abs(next - before) < least ? before : next);
  const settled = targets.map((target, i) => {
    const shard = shards[i] as ShardDemand;
    const { capacity, rate } = shard.share;
    const isShort = capacity < largestShare(shard);
    return { capacity: isShort ? target.capacity : settle(capacity, target.capacity), rate: settle(rate, target.rate) };
  });
  const sum = sumOf(settled);
  return sum.capacity > pool.capacity || sum.rate > pool.rate ? targets : settled;
}

/** The share of the capacity that the largest need requires. One more, because targets are rounded down. */
const largestShare = ({ largest }: ShardDemand) => (largest > 0 ? Math.ceil(largest * WHOLE_SHARE) + 1 : 0);

type Wanted = (shard: ShardDemand) => number;

interface Division {
  /** The fraction that is divided by weight. */
  byWeight: number;
  wantedOf: Wanted;
  /** A shard gets this many times what it wants, as far as there is some. */
  headroom: number;
}

/**
 * Divides a pool: first what is wanted up to the guaranteed rates, then a part by weight, then what is wanted beyond that; what
 * nobody wants, by weight and want. So demand on one shard, real or claimed, takes nothing from the own rates on another.
 */
function divide(shards: ShardDemand[], pool: number, { byWeight, wantedOf, headroom }: Division): number[] {
  const ofRates = shards.map((shard) => Math.min(wantedOf(shard), shard.guaranteed * pool));
  const unclaimed = Math.max(pool - ofRates.reduce((sum, one) => sum + one, 0), 0);
  const weighted = Math.min(pool * byWeight, unclaimed);
  const minimum = shards.map(({ weight }, i) => (ofRates[i] as number) + weighted * weight);
  const wanted = shards.map((shard, i) => Math.max(wantedOf(shard) * headroom - (minimum[i] as number), 0));
  const total = wanted.reduce((sum, one) => sum + one, 0);
  const rest = unclaimed - weighted;
  if (total > 0 && total >= rest) return minimum.map((least, i) => least + (rest * (wanted[i] as number)) / total);
  const left = rest - total;
  return minimum.map((least, i) => {
    const own = wanted[i] as number;
    const weight = shards[i]?.weight as number;
    return least + own + left * (total > 0 ? (weight + own / total) / 2 : weight);
  });
}

export function sumOf(shares: SharePair[]): SharePair {
  return shares.reduce((sum, one) => ({ capacity: sum.capacity + one.capacity, rate: sum.rate + one.rate }), {
    capacity: 0,
    rate: 0,
  });
}
