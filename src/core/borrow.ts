/** Borrowing: how many idle cluster tokens an app may take when its bucket is empty, and what it owes for them. */
import { type Bucket, MICRO } from "./bucket.js";

/** Maximum borrowed tokens, as a fraction of the guaranteed tokens per second. */
export const BORROW_RATIO = 0.5;
/** Debt per borrowed token, in micro-tokens: 120 %. */
export const OWED_PER_TOKEN = 1200000;
/** The cluster lends only tokens above this fraction of its capacity, so that lending never causes an emergency. */
export const LENDING_FLOOR = 0.2;

/** Whole tokens that an app with this debt may still borrow. `guaranteed` in micro-tokens per second. */
export function borrowable(debt: number, guaranteed: number): number {
  const limit = Math.floor((guaranteed * BORROW_RATIO) / MICRO) * OWED_PER_TOKEN;
  return Math.max(Math.floor((limit - debt) / OWED_PER_TOKEN), 0);
}

/** Whole cluster tokens that are idle: above the lending floor and above the reserve of the apps' own rates. */
export function lendable({ tokens, capacity, reserve }: Bucket): number {
  return Math.max(Math.floor((tokens - Math.max(capacity * LENDING_FLOOR, reserve)) / MICRO), 0);
}

/** Adds `amount` borrowed tokens and the debt for them. The cluster's bucket pays when the tokens are granted. */
export function lend(bucket: Bucket, amount: number): void {
  bucket.tokens = bucket.tokens + amount * MICRO;
  bucket.debt = bucket.debt + amount * OWED_PER_TOKEN;
}

/** Repays debt from the bucket: at most `amount`, the debt and the level. Returns the whole tokens paid. */
export function repayFrom(bucket: Bucket, amount: number): number {
  const owed = Math.ceil(bucket.debt / MICRO);
  const paid = Math.min(amount, owed, Math.max(Math.floor(bucket.tokens / MICRO), 0));
  bucket.tokens = bucket.tokens - paid * MICRO;
  bucket.debt = Math.max(bucket.debt - paid * MICRO, 0);
  return paid;
}
