/** L2 in the store: bucket, debt and totals of an app, read and written as one hash. */
import { type Bucket, charge, cutToHighest, giveBack, MAX_TOKENS, MICRO, refill } from "../../core/bucket.js";
import { emergencyRatio, scaled } from "../../core/emergency.js";
import { isReportTime, MOST_SPARE, paidBySpare, spareRefill } from "../../core/outage.js";
import { isIdentifier, joinValues, splitText, storedNumber } from "../../core/platform.js";
import { type OwnRate, ownCapacityOf } from "../../core/reserve.js";
import type { RedisApi } from "../redis-api.js";
import { type Cluster, MAX_COUNTER, MAX_RATE, NO_EMERGENCY } from "./cluster.js";

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

/** Refill that did not fit in the last outage of the store: pays for what nodes spent without the store. */
interface SpareRefill {
  /** The beginning of the outage. */
  from: number;
  /** Micro-tokens. */
  left: number;
}

/** A bucket with the effective limits (reduced in an emergency) and the totals since it was created. */
export interface App extends Bucket, OwnRate {
  /** The configured capacity in tokens. */
  burst: number;
  /** The bucket of a limit: L1 neither pays for it nor counts it. */
  isLimit: boolean;
  /** Tokens that nodes hold and L1 has paid. */
  l1Held: number;
  /** The fields as they were read: some are written only if they have changed. */
  stored: (string | false)[];
  /** Only until all nodes have had the time to report. */
  spare?: SpareRefill;
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
  // Text that is not a whole number was read as -1.
  if (numbers[BURST]! < 0 || numbers[BURST]! > MAX_TOKENS) return "burst";
  if (numbers[GUARANTEED]! < 0 || numbers[GUARANTEED]! > MAX_RATE) return "guaranteed";
  if (numbers[PRIORITY]! < 0 || numbers[PRIORITY]! > LOWEST_PRIORITY) return "priority";
  if (numbers[FILL_US]! < 0 || numbers[FILL_US]! > LONGEST_FILL_US) return "fill_us";
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
 * to the new capacity. Whoever writes the app also writes the cluster: both count what L1 has paid and nodes hold.
 */
export function readApp(redis: RedisApi, key: string, numbers: number[], cluster: Cluster): App {
  let capacity = configuredCapacity(numbers);
  let rate = configuredRate(numbers);
  const isLimit = numbers[FILL_US]! > 0;
  const fields = redis.call("HMGET", key, "tokens", "debt", "at", "granted", "spent", "returned", "own", "l1_held");
  const tokens = storedNumber(fields[0]!, capacity);
  if (cluster.emergencyMs !== NO_EMERGENCY) {
    const ratio = emergencyRatio(numbers[PRIORITY]!);
    capacity = scaled(capacity, ratio);
    rate = scaled(rate, ratio);
  }
  const ownCapacity = isLimit ? 0 : ownCapacityOf(rate, cluster.rate, cluster.reserve);
  // A table of up to 16 fields takes half the memory, and time, of a larger one. The spare refill is the 17th, and rare.
  const app: App = {
    tokens,
    debt: storedNumber(fields[1]!, 0),
    capacity,
    held: 0,
    rate,
    reserve: rate,
    burst: numbers[BURST]!,
    isLimit,
    own: storedNumber(fields[6]!, ownCapacity),
    ownCapacity,
    l1Held: storedNumber(fields[7]!, 0),
    at: cluster.now,
    granted: storedNumber(fields[3]!, 0),
    spent: storedNumber(fields[4]!, 0),
    returned: storedNumber(fields[5]!, 0),
    stored: fields,
  };
  app.held = Math.max(app.granted - app.spent - app.returned, 0) * MICRO;
  if (!isLimit && fields[7] === false && app.held > 0) {
    // Last written by release 0.2, which did not count per app.
    app.l1Held = Math.min(app.held, configuredCapacity(numbers)) / MICRO;
    cluster.held = cluster.held + app.l1Held * MICRO;
    cutToHighest(cluster);
  }
  const { now, outage } = cluster;
  const mayHaveSpare = isReportTime(outage.to, now);
  // A bucket that is not stored is full, and was so in the outage.
  const last = storedNumber(fields[2]!, mayHaveSpare ? outage.from : now);
  const elapsed = now - last;
  const lost = refill(app, elapsed);
  if (mayHaveSpare) {
    const before = storedSpare(redis.call("HGET", key, "spare"), outage.from);
    app.spare = { from: outage.from, left: Math.min(before + spareRefill(lost, rate, last, outage), MOST_SPARE) };
  }
  if (elapsed > 0) app.own = app.own + elapsed * (rate / MICRO);
  return app;
}

/** The rest of the spare refill of the outage that began at `from`. */
function storedSpare(stored: string | false, from: number): number {
  const parts = stored === false ? [] : splitText(stored, " ");
  return parts.length === 2 && storedNumber(parts[0]!, -1) === from ? storedNumber(parts[1]!, 0) : 0;
}

/** The highest level of the own rate: what nodes hold counts towards its capacity, so that it cannot be saved on leases. */
export function highestOwn({ ownCapacity, held }: App, newlyHeld = 0): number {
  const all = held + newlyHeld * MICRO;
  const level = all > 0 ? ownCapacity - all : ownCapacity;
  return Math.max(level, 0);
}

/**
 * Cuts the own rate to its highest level.
 * After `readApp`, only once the spending of a message is known: what was spent since the last call was not held all the
 * time. `newlyHeld`: tokens that nodes hold in addition by that message.
 */
export function cutOwn(app: App, newlyHeld = 0): void {
  const highest = highestOwn(app, newlyHeld);
  if (app.own > highest) app.own = highest;
}

/** Tokens of the app that nodes can hold besides those that they hold: together never more than its burst. */
export function roomOf({ burst, held }: App): number {
  return Math.max(burst - held / MICRO, 0);
}

/** A descriptor limit expires when it is full again at the configured rate: recreating it then gives the same state. */
export function writeApp(redis: RedisApi, key: string, app: App, numbers: number[]): void {
  const { tokens, debt, at, granted, spent, returned } = app;
  cutOwn(app);
  const { own, l1Held, stored } = app;
  // While a node gets as many tokens as it has spent, what it holds stays the same.
  const sameInL1 = app.isLimit || (storedNumber(stored[6]!, -1) === own && storedNumber(stored[7]!, -1) === l1Held);
  // The pairs are written out: collecting them in a list takes a tenth of a grant's time.
  if (sameInL1) redis.call("HSET", key, "tokens", tokens, "at", at, "granted", granted, "spent", spent);
  else {
    redis.call(
      "HSET",
      key,
      "tokens",
      tokens,
      "at",
      at,
      "granted",
      granted,
      "spent",
      spent,
      "own",
      own,
      "l1_held",
      l1Held,
    );
  }
  const isUnchanged = storedNumber(stored[1]!, 0) === debt && storedNumber(stored[5]!, 0) === returned;
  if (!isUnchanged) redis.call("HSET", key, "debt", debt, "returned", returned);
  const { spare } = app;
  if (spare !== undefined) redis.call("HSET", key, "spare", joinValues([spare.from, spare.left], " ", MAX_COUNTER));
  if (app.isLimit) {
    const missing = Math.max(configuredCapacity(numbers) - tokens, 0);
    const fillMs = missing > 0 ? Math.ceil((missing / configuredRate(numbers)) * 1000) : 0;
    redis.call("PEXPIRE", key, fillMs + (app.held > 0 ? KEPT_HELD_MS : KEPT_FULL_MS));
  }
}

function hold(app: App, tokens: number): void {
  app.held = Math.max(app.held + tokens * MICRO, 0);
}

/** Takes tokens out of L2, for a node to hold. */
export function take(app: App, tokens: number): void {
  app.tokens = app.tokens - tokens * MICRO;
  app.granted = app.granted + tokens;
  hold(app, tokens);
}

/** Charges L2 for tokens that a node holds or has spent without a recorded grant. `spare`: those that spare refill has paid. */
export function chargeApp(app: App, tokens: number, spare = 0): void {
  charge(app, tokens - spare);
  app.granted = app.granted + tokens;
  hold(app, tokens);
}

/** Takes up to `tokens` from the spare refill, and returns how many. */
export function takeSpare(app: App, tokens: number): number {
  const { spare } = app;
  if (spare === undefined) return 0;
  const paid = paidBySpare(spare.left, tokens);
  spare.left = spare.left - paid * MICRO;
  return paid;
}

/** Records that a node has spent tokens that it held. Refunds are negative: the node holds these tokens again. */
export function recordSpent(app: App, tokens: number): void {
  app.spent = app.spent + tokens;
  hold(app, 0 - tokens);
  cutToHighest(app);
}

/** Returns tokens to L2 that a node no longer holds. */
export function returnToApp(app: App, tokens: number): void {
  app.returned = app.returned + tokens;
  hold(app, 0 - tokens);
  giveBack(app, tokens);
}
