/** L2 as scripts see it: an app's bucket, its debt and its totals, read and written as one hash. */
import { type Bucket, charge, giveBack, MAX_TOKENS, MICRO, refill } from "../../core/bucket.js";
import { emergencyRatio, scaled } from "../../core/emergency.js";
import { isIdentifier, storedNumber } from "../../core/host.js";
import type { RedisApi } from "../redis-api.js";
import { type Cluster, isWithin, MAX_RATE, NO_EMERGENCY } from "./cluster.js";
import { BURST, GUARANTEED, PRIORITY } from "./request.js";

const LOWEST_PRIORITY = 1000;

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
  return "";
}

/** Micro-tokens that the bucket holds at most, as configured. */
export function configuredCapacity(numbers: number[]): number {
  return numbers[BURST]! * MICRO;
}

/** Micro-tokens per second, as configured. */
export function configuredRate(numbers: number[]): number {
  return numbers[GUARANTEED]!;
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

export function writeApp(redis: RedisApi, key: string, app: App, now: number): void {
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
