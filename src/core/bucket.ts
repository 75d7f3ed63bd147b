/** The token bucket: how its level moves with time, and how long to wait for a level. Whole tokens leave it; it keeps millionths. */

/**
 * Levels are kept in micro-tokens and time in microseconds. With a whole number of tokens per second every level is
 * then a whole number below 2^53, so that the arithmetic is exact and the same in every runtime.
 */
export const MICRO = 1000000;

/** The most tokens that a bucket holds or refills in a second. */
export const MAX_TOKENS = 1000000000;

/** The longest wait that is ever announced: one day. */
export const MAX_WAIT_MS = 86400000;

/** A bucket: its level, which may be negative when something was spent before it was paid, and its limits. */
export interface Bucket {
  /** Micro-tokens. */
  tokens: number;
  /** Micro-tokens owed for what was borrowed. */
  debt: number;
  /** Micro-tokens at most. */
  capacity: number;
  /** Micro-tokens per second. */
  rate: number;
  /** Refill restores this level first, before it repays debt. */
  reserve: number;
}

/**
 * Lets `elapsed` microseconds pass. Refill restores the reserve, then repays debt, then fills up to the capacity. A
 * clock that stepped back (a negative time) refills nothing; one that jumped ahead fills at most to the capacity.
 */
export function refill(bucket: Bucket, elapsed: number): void {
  if (elapsed > 0) {
    const gained = elapsed * (bucket.rate / MICRO);
    const toReserve = Math.min(gained, Math.max(Math.min(bucket.reserve, bucket.capacity) - bucket.tokens, 0));
    const repaid = Math.min(gained - toReserve, bucket.debt);
    bucket.debt = bucket.debt - repaid;
    bucket.tokens = bucket.tokens + (gained - repaid);
  }
  bucket.tokens = Math.min(bucket.tokens, bucket.capacity);
}

/** Whole tokens that can leave a bucket at this level. */
export function wholeTokens(microTokens: number): number {
  return Math.max(Math.floor(microTokens / MICRO), 0);
}

/**
 * Takes what was spent without having been granted. The level falls below zero, but never by more than `capacity`, the
 * bucket's configured one: that is all a bucket can forget or remember.
 */
export function charge(bucket: Bucket, tokens: number, capacity: number): void {
  bucket.tokens = Math.max(bucket.tokens - tokens * MICRO, Math.min(bucket.tokens, 0 - capacity));
}

/** Puts tokens back; what does not fit is lost. */
export function giveBack(bucket: Bucket, tokens: number): void {
  bucket.tokens = Math.min(bucket.tokens + tokens * MICRO, bucket.capacity);
}

/** Milliseconds until the bucket holds `tokens`, debt on the way included; at most a day. */
export function waitMs(bucket: Bucket, tokens: number): number {
  const wanted = tokens * MICRO;
  let missing = wanted - bucket.tokens;
  if (missing <= 0) return 0;
  if (wanted > bucket.reserve) missing = missing + bucket.debt;
  if (missing >= bucket.rate * (MAX_WAIT_MS / 1000)) return MAX_WAIT_MS;
  return Math.ceil((missing / bucket.rate) * 1000);
}
