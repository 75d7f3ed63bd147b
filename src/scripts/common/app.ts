/** L2 in the store: bucket, debt and totals of an app, read and written as one hash. */
import { type Bucket, charge, cutToHighest, giveBack, MAX_TOKENS, MICRO, refill } from "../../core/bucket.js";
import { emergencyRatio, scaled } from "../../core/emergency.js";
import { isReportTime, MOST_SPARE, paidBySpare, spareRefill } from "../../core/outage.js";
import { isIdentifier, joinValues, splitText, storedNumber } from "../../core/platform.js";
import { type OwnRate, ownCapacityOf } from "../../core/reserve.js";
import { fields, text } from "../operation.js";
import type { RedisApi, Stored } from "../redis-api.js";
import { type Cluster, type ClusterNumbers, clusterFault, MAX_COUNTER, MAX_RATE, NO_EMERGENCY } from "./cluster.js";

/**
 * The arguments about an app. `guaranteed` is in micro-tokens per second. `fillUs`: microseconds to fill the empty bucket of a
 * limit, which expires once it is full; 0 for an app, which is permanent and fills at `guaranteed`.
 */
export const APP = fields(text("id"), "burst", "guaranteed", "priority", "fillUs");
export type AppNumbers = Record<"burst" | "guaranteed" | "priority" | "fillUs", number>;

/** The counters of a node's message, cumulative since its epoch began. */
export const COUNTERS = fields("granted", "spent", "returned");
export type Counters = Record<(typeof COUNTERS)[number], number>;

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

/** What was read of an app's hash. */
type StoredApp = [
  tokens: Stored,
  debt: Stored,
  at: Stored,
  granted: Stored,
  spent: Stored,
  returned: Stored,
  own: Stored,
  l1Held: Stored,
];

/** A bucket with the effective limits (reduced in an emergency) and the totals since it was created. */
export interface App extends Bucket, OwnRate {
  /** The configured capacity in tokens. */
  burst: number;
  /** The bucket of a limit: L1 neither pays for it nor counts it. */
  isLimit: boolean;
  /** Tokens that nodes hold and L1 has paid. */
  l1Held: number;
  /** The fields as they were read: some are written only if they have changed. */
  stored: StoredApp;
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
export function appFault(id: string, { burst, guaranteed, priority, fillUs }: AppNumbers): string {
  if (!isIdentifier(id)) return "app";
  // Text that is not a whole number was read as -1.
  if (burst < 0 || burst > MAX_TOKENS) return "burst";
  if (guaranteed < 0 || guaranteed > MAX_RATE) return "guaranteed";
  if (priority < 0 || priority > LOWEST_PRIORITY) return "priority";
  return fillUs < 0 || fillUs > LONGEST_FILL_US ? "fill_us" : "";
}

/** Checks the numbers of the cluster and of the app in a call. */
export function checkApp<C extends { fault: string; values: ClusterNumbers & AppNumbers & { id: string } }>(
  call: C,
): C {
  if (call.fault === "") call.fault = clusterFault(call.values);
  if (call.fault === "") call.fault = appFault(call.values.id, call.values);
  return call;
}

/** Configured capacity in micro-tokens. */
export function configuredCapacity({ burst }: AppNumbers): number {
  return burst * MICRO;
}

/** Configured rate in micro-tokens per second. May be a fraction: one per month is less than half a micro-token. */
export function configuredRate(numbers: AppNumbers): number {
  const { fillUs } = numbers;
  return fillUs === 0 ? numbers.guaranteed : configuredCapacity(numbers) / (fillUs / US_PER_SECOND);
}

/**
 * Reads the app and refills it up to now. A changed limit applies from the last call on: the level is kept and clamped
 * to the new capacity. Whoever writes the app also writes the cluster: both count what L1 has paid and nodes hold.
 */
export function readApp(redis: RedisApi, key: string, numbers: AppNumbers, cluster: Cluster): App {
  let capacity = configuredCapacity(numbers);
  let rate = configuredRate(numbers);
  const isLimit = numbers.fillUs > 0;
  const stored = redis.call("HMGET", key, "tokens", "debt", "at", "granted", "spent", "returned", "own", "l1_held");
  const tokens = storedNumber(stored[0], capacity);
  if (cluster.emergencyMs !== NO_EMERGENCY) {
    const ratio = emergencyRatio(numbers.priority);
    capacity = scaled(capacity, ratio);
    rate = scaled(rate, ratio);
  }
  const ownCapacity = isLimit ? 0 : ownCapacityOf(rate, cluster.rate, cluster.reserve);
  // A table of up to 16 fields takes half the memory, and time, of a larger one. The spare refill is the 17th, and rare.
  const app: App = {
    tokens,
    debt: storedNumber(stored[1], 0),
    capacity,
    held: 0,
    rate,
    reserve: rate,
    burst: numbers.burst,
    isLimit,
    own: storedNumber(stored[6], ownCapacity),
    ownCapacity,
    l1Held: storedNumber(stored[7], 0),
    at: cluster.now,
    granted: storedNumber(stored[3], 0),
    spent: storedNumber(stored[4], 0),
    returned: storedNumber(stored[5], 0),
    stored,
  };
  app.held = Math.max(app.granted - app.spent - app.returned, 0) * MICRO;
  if (!isLimit && stored[7] === false && app.held > 0) {
    // Last written by release 0.2, which did not count per app.
    app.l1Held = Math.min(app.held, configuredCapacity(numbers)) / MICRO;
    cluster.held = cluster.held + app.l1Held * MICRO;
    cutToHighest(cluster);
  }
  const { now, outage } = cluster;
  const mayHaveSpare = isReportTime(outage.to, now);
  // A bucket that is not stored is full, and was so in the outage.
  const last = storedNumber(stored[2], mayHaveSpare ? outage.from : now);
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
export function writeApp(redis: RedisApi, key: string, app: App, numbers: AppNumbers): void {
  const { tokens, debt, at, granted, spent, returned } = app;
  cutOwn(app);
  const { own, l1Held } = app;
  const [, storedDebt, , , , storedReturned, storedOwn, storedL1Held] = app.stored;
  // While a node gets as many tokens as it has spent, what it holds stays the same.
  const sameInL1 = app.isLimit || (storedNumber(storedOwn, -1) === own && storedNumber(storedL1Held, -1) === l1Held);
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
  const isUnchanged = storedNumber(storedDebt, 0) === debt && storedNumber(storedReturned, 0) === returned;
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
