/** The token bucket: refill, charges, returns and waiting times. Whole tokens are taken; the level is in micro-tokens. */

/**
 * Levels are kept in micro-tokens and time in microseconds. With a whole number of tokens per second every level is
 * then a whole number below 2^53, so that the arithmetic is exact and the same in every runtime.
 */
export const MICRO = 1000000;

/** Maximum tokens that a bucket holds or refills per second. */
export const MAX_TOKENS = 1000000000;

/** Maximum announced waiting time: one day. */
export const MAX_WAIT_MS = 86400000;

/** The level is negative if tokens were spent before they were granted. */
export interface Bucket {
  /** Micro-tokens. */
  tokens: number;
  /** Micro-tokens owed for borrowed tokens. */
  debt: number;
  /** Maximum micro-tokens, including those that nodes hold. */
  capacity: number;
  /** Micro-tokens that nodes hold: granted, and neither reported as spent nor returned. */
  held: number;
  /** Micro-tokens per second. */
  rate: number;
  /** Refill restores this level first, before it repays debt. */
  reserve: number;
}

/**
 * The highest level: what nodes hold counts towards the capacity. So level + held never exceeds it, and in any period at most
 * capacity + rate × time can be spent.
 */
export function highestLevel(bucket: Bucket): number {
  return Math.max(bucket.capacity - bucket.held, 0);
}

/**
 * Refills for `elapsed` microseconds: first the reserve, then debt, then up to the highest level. A clock that was set
 * back refills nothing. Returns the refill that did not fit.
 */
export function refill(bucket: Bucket, elapsed: number): number {
  let gained = 0;
  if (elapsed > 0) {
    gained = elapsed * (bucket.rate / MICRO);
    const highest = highestLevel(bucket);
    const target = Math.min(bucket.reserve, highest);
    const missing = Math.max(target - bucket.tokens, 0);
    const toReserve = Math.min(gained, missing);
    const repaid = Math.min(gained - toReserve, bucket.debt);
    bucket.debt = bucket.debt - repaid;
    gained = gained - repaid;
    bucket.tokens = bucket.tokens + gained;
  }
  const level = bucket.tokens;
  cutToHighest(bucket);
  return Math.min(level - bucket.tokens, gained);
}

/** After a change of the capacity or of the held tokens: what does not fit is lost. */
export function cutToHighest(bucket: Bucket): void {
  const highest = highestLevel(bucket);
  if (bucket.tokens > highest) bucket.tokens = highest;
}

/** Whole tokens that can leave a bucket at this level. */
export function wholeTokens(microTokens: number): number {
  return microTokens > 0 ? Math.floor(microTokens / MICRO) : 0;
}

/** Below this level the arithmetic would not be exact any more. */
const LOWEST_LEVEL = 0 - MAX_TOKENS * MICRO;

/** Whole tokens that can be charged before the bucket reaches its lowest level. */
export function chargeable(bucket: Bucket): number {
  return Math.max(Math.floor((bucket.tokens - LOWEST_LEVEL) / MICRO), 0);
}

/** Charges tokens that were spent without a grant. The level becomes negative: debt is forgotten only below a billion tokens. */
export function charge(bucket: Bucket, tokens: number): void {
  bucket.tokens = Math.max(bucket.tokens - tokens * MICRO, Math.min(bucket.tokens, LOWEST_LEVEL));
}

/** Returns tokens that are no longer held; what does not fit is lost. */
export function giveBack(bucket: Bucket, tokens: number): void {
  bucket.tokens = Math.min(bucket.tokens + tokens * MICRO, highestLevel(bucket));
}

/** Milliseconds until the bucket holds `tokens`, including the time to repay debt; at most one day. */
export function waitMs(bucket: Bucket, tokens: number): number {
  const wanted = tokens * MICRO;
  let missing = wanted - bucket.tokens;
  if (missing <= 0) return 0;
  if (wanted > bucket.reserve) missing = missing + bucket.debt;
  if (missing >= bucket.rate * (MAX_WAIT_MS / 1000)) return MAX_WAIT_MS;
  return Math.ceil((missing / bucket.rate) * 1000);
}
