/** L2 in the store: bucket, debt and totals of an app, read and written as one hash. */
import { type Bucket, charge, cutToHighest, giveBack, MAX_TOKENS, MICRO, refill } from "../../core/bucket.js";
import { emergencyRatio, scaled } from "../../core/emergency.js";
import { isIdentifier, storedNumber } from "../../core/platform.js";
import type { RedisApi } from "../redis-api.js";
import { type Cluster, isWithin, MAX_RATE, NO_EMERGENCY } from "./cluster.js";

/** Positions of an app's numbers in a call. */
export const BURST = 0;
/** Micro-tokens per second. */
export const GUARANTEED = 1;
export const PRIORITY = 2;
/**
 * Microseconds to fill the empty bucket of a limit, which expires once it is full. 0 for an app, which is permanent and
 * fills at GUARANTEED.
 */
export const FILL_US = 3;
/** Number of values that all scripts about an app have. */
export const LIMIT_NUMBERS = 4;

/** The counters of a node's message, cumulative since its epoch began. */
export const GRANTED = 4;
export const SPENT = 5;
export const RETURNED = 6;
/** Number of values that all messages have. */
export const MESSAGE_NUMBERS = 7;

const LOWEST_PRIORITY = 1000;
/** Ten years. */
const LONGEST_FILL_US = 315360000000000;
const US_PER_SECOND = 1000000;
/** A full bucket is kept a little longer, so that rounding never removes one that is not quite full. */
const KEPT_FULL_MS = 1000;
/** While nodes hold tokens the bucket is kept: a new one would not know of them. A node reports or is reconciled earlier. */
const KEPT_HELD_MS = 3600000;

/** A bucket with the effective limits (reduced in an emergency) and the totals since it was created. */
export interface App extends Bucket {
  /** When it was read, in microseconds on the store's clock. */
  at: number;
  /** Tokens that left the bucket … */
  granted: number;
  /** … that were spent, refunds deducted … */
  spent: number;
  /** … and that came back. granted − spent − returned is out on leases. */
  returned: number;
}

/** The invalid argument among an app's id and numbers, or an empty text. */
export function appFault(id: string, numbers: number[]): string {
  if (!isIdentifier(id)) return "app";
  if (!isWithin(numbers[BURST]!, 0, MAX_TOKENS)) return "burst";
  if (!isWithin(numbers[GUARANTEED]!, 0, MAX_RATE)) return "guaranteed";
  if (!isWithin(numbers[PRIORITY]!, 0, LOWEST_PRIORITY)) return "priority";
  if (!isWithin(numbers[FILL_US]!, 0, LONGEST_FILL_US)) return "fill_us";
  return "";
}

/** Configured capacity in micro-tokens. */
export function configuredCapacity(numbers: number[]): number {
  return numbers[BURST]! * MICRO;
}

/** Configured rate in micro-tokens per second. May be a fraction: one per month is less than half a micro-token. */
export function configuredRate(numbers: number[]): number {
  const fillUs = numbers[FILL_US]!;
  return fillUs === 0 ? numbers[GUARANTEED]! : configuredCapacity(numbers) / (fillUs / US_PER_SECOND);
}

/**
 * Reads the app and refills it up to now. A changed limit applies from the last call on: the level is kept and clamped
 * to the new capacity.
 */
export function readApp(redis: RedisApi, key: string, numbers: number[], cluster: Cluster): App {
  let capacity = configuredCapacity(numbers);
  let rate = configuredRate(numbers);
  const fields = redis.call("HMGET", key, "tokens", "debt", "at", "granted", "spent", "returned");
  const tokens = storedNumber(fields[0]!, capacity);
  if (cluster.emergencyMs !== NO_EMERGENCY) {
    const ratio = emergencyRatio(numbers[PRIORITY]!);
    capacity = scaled(capacity, ratio);
    rate = scaled(rate, ratio);
  }
  const app: App = {
    tokens,
    debt: storedNumber(fields[1]!, 0),
    capacity,
    held: 0,
    rate,
    reserve: rate,
    at: cluster.now,
    granted: storedNumber(fields[3]!, 0),
    spent: storedNumber(fields[4]!, 0),
    returned: storedNumber(fields[5]!, 0),
  };
  app.held = Math.max(app.granted - app.spent - app.returned, 0) * MICRO;
  refill(app, cluster.now - storedNumber(fields[2]!, cluster.now));
  return app;
}

/** A descriptor limit expires when it is full again at the configured rate: recreating it then gives the same state. */
export function writeApp(redis: RedisApi, key: string, app: App, numbers: number[]): void {
  const { tokens, debt, at, granted, spent, returned } = app;
  redis.call(
    "HSET",
    key,
    "tokens",
    tokens,
    "debt",
    debt,
    "at",
    at,
    "granted",
    granted,
    "spent",
    spent,
    "returned",
    returned,
  );
  if (numbers[FILL_US]! > 0) {
    const missing = Math.max(configuredCapacity(numbers) - tokens, 0);
    const fillMs = missing > 0 ? Math.ceil((missing / configuredRate(numbers)) * 1000) : 0;
    redis.call("PEXPIRE", key, fillMs + (app.held > 0 ? KEPT_HELD_MS : KEPT_FULL_MS));
  }
}

/** Changes what nodes hold, in both layers. */
function hold(app: App, cluster: Cluster, tokens: number): void {
  app.held = Math.max(app.held + tokens * MICRO, 0);
  cluster.held = Math.max(cluster.held + tokens * MICRO, 0);
}

/** Takes tokens out of both layers, for a node to hold. */
export function takeFromBoth(app: App, cluster: Cluster, tokens: number): void {
  app.tokens = app.tokens - tokens * MICRO;
  cluster.tokens = cluster.tokens - tokens * MICRO;
  app.granted = app.granted + tokens;
  cluster.demand.taken = cluster.demand.taken + tokens;
  hold(app, cluster, tokens);
}

/** Charges both layers for tokens that a node holds or has spent without a recorded grant. */
export function chargeBoth(app: App, cluster: Cluster, tokens: number): void {
  charge(app, tokens);
  charge(cluster, tokens);
  app.granted = app.granted + tokens;
  cluster.demand.taken = cluster.demand.taken + tokens;
  hold(app, cluster, tokens);
}

/** Records that a node has spent tokens that it held. Refunds are negative: the node holds these tokens again. */
export function recordSpent(app: App, cluster: Cluster, tokens: number): void {
  app.spent = app.spent + tokens;
  hold(app, cluster, 0 - tokens);
  cutToHighest(app);
  cutToHighest(cluster);
}

/** Returns tokens to both layers that a node has spent, without changing what it holds. */
export function refundBoth(app: App, cluster: Cluster, tokens: number): void {
  app.spent = app.spent - tokens;
  app.returned = app.returned + tokens;
  cluster.demand.taken = cluster.demand.taken - tokens;
  giveBack(app, tokens);
  giveBack(cluster, tokens);
}

/** Returns tokens that a node no longer holds to both layers. */
export function returnToBoth(app: App, cluster: Cluster, tokens: number): void {
  app.returned = app.returned + tokens;
  cluster.demand.taken = cluster.demand.taken - tokens;
  hold(app, cluster, 0 - tokens);
  giveBack(app, tokens);
  giveBack(cluster, tokens);
}
