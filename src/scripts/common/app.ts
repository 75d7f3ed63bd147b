/** L2 as scripts see it: an app's bucket, its debt and its totals, read and written as one hash. */
import { type Bucket, charge, giveBack, MAX_TOKENS, MICRO, refill } from "../../core/bucket.js";
import { emergencyRatio, scaled } from "../../core/emergency.js";
import { isIdentifier, storedNumber } from "../../core/platform.js";
import type { RedisApi } from "../redis-api.js";
import { type Cluster, isWithin, MAX_RATE, NO_EMERGENCY } from "./cluster.js";
import { BURST, FILL_S, GUARANTEED, PRIORITY } from "./request.js";

const LOWEST_PRIORITY = 1000;
/** Ten years. */
const LONGEST_FILL_S = 315360000;
/** A full bucket is kept a little longer: rounding must never forget one that is not quite full. */
const KEPT_FULL_MS = 1000;

/** A bucket, with the limits in force (less than configured in an emergency), and the totals since it began. */
export interface App extends Bucket {
  /** Tokens that left the bucket … */
  granted: number;
  /** … that were spent, refunds deducted … */
  spent: number;
  /** … and that came back. granted − spent − returned is out on leases. */
  returned: number;
}

/** What is wrong with an app's id or its numbers; empty when nothing is. */
export function appFault(id: string, numbers: number[]): string {
  if (!isIdentifier(id)) return "app";
  if (!isWithin(numbers[BURST]!, 0, MAX_TOKENS)) return "burst";
  if (!isWithin(numbers[GUARANTEED]!, 0, MAX_RATE)) return "guaranteed";
  if (!isWithin(numbers[PRIORITY]!, 0, LOWEST_PRIORITY)) return "priority";
  if (!isWithin(numbers[FILL_S]!, 0, LONGEST_FILL_S)) return "fill_s";
  return "";
}

/** Micro-tokens that the bucket holds at most, as configured. */
export function configuredCapacity(numbers: number[]): number {
  return numbers[BURST]! * MICRO;
}

/** Micro-tokens per second, as configured. A limit's may be a fraction: one per month is less than half a micro-token. */
export function configuredRate(numbers: number[]): number {
  return numbers[FILL_S] === 0 ? numbers[GUARANTEED]! : configuredCapacity(numbers) / numbers[FILL_S]!;
}

/**
 * Reads the app and brings it up to now. A limit that changed applies from the last call on: the level stays as it was
 * and is cut to the new capacity.
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
    rate,
    reserve: rate,
    granted: storedNumber(fields[3]!, 0),
    spent: storedNumber(fields[4]!, 0),
    returned: storedNumber(fields[5]!, 0),
  };
  refill(app, cluster.now - storedNumber(fields[2]!, cluster.now));
  return app;
}

/**
 * A limit that comes and goes is forgotten when it is full again, by the rate as configured: then it is what it would be
 * if it had been kept, also when nodes still hold tokens of it.
 */
export function writeApp(redis: RedisApi, key: string, app: App, now: number, numbers: number[]): void {
  const { tokens, debt, granted, spent, returned } = app;
  redis.call(
    "HSET",
    key,
    "tokens",
    tokens,
    "debt",
    debt,
    "at",
    now,
    "granted",
    granted,
    "spent",
    spent,
    "returned",
    returned,
  );
  if (numbers[FILL_S]! > 0) {
    const missing = Math.max(configuredCapacity(numbers) - tokens, 0);
    const fillMs = missing > 0 ? Math.ceil((missing / configuredRate(numbers)) * 1000) : 0;
    redis.call("PEXPIRE", key, fillMs + KEPT_FULL_MS);
  }
}

/** Pays for tokens that a node has, or has spent, without a grant on record: from both layers. */
export function chargeBoth(app: App, cluster: Cluster, tokens: number, capacity: number): void {
  charge(app, tokens, capacity);
  charge(cluster, tokens, cluster.capacity);
  app.granted = app.granted + tokens;
}

/** Puts tokens that a node no longer holds back into both layers. */
export function returnToBoth(app: App, cluster: Cluster, tokens: number): void {
  giveBack(app, tokens);
  giveBack(cluster, tokens);
  app.returned = app.returned + tokens;
}
