/** The buckets of descriptor limits on this node: created on first use, limited in number, released when idle. */
import { createHash } from "node:crypto";
import { standardProfile } from "../core/cost.js";
import type { AppLimits } from "../core/limits.js";
import type { Limiter } from "../limiter/limiter.js";
import type { Clock } from "../shared/clock.js";
import { type Entry, SECONDS, type Unit } from "./descriptor.js";
import { type CountedLimit, LIMIT_PREFIX, type Rule } from "./rules.js";

type Limits = Limiter["limits"];

export interface Bucket {
  id: string;
  /** Replaced when the configuration changes. */
  limit: CountedLimit;
  account: ReturnType<Limits["enter"]>;
  /** The only bucket of its rule. These do not count towards the maximum number of values. */
  single: boolean;
  usedAt: number;
  /** When the store expects to have tokens again. */
  retryAt: number;
}

export type Buckets = ReturnType<typeof createBuckets>;

const SWEEP_MS = 1_000;
/** An idle bucket is released after this time, sooner when many of the values are in use. */
const IDLE_MS = 60_000;
const CROWDED_IDLE_MS = 10_000;
const FULL_IDLE_MS = 1_500;

export function createBuckets(limits: Limits, clock: Clock, maxValues: () => number) {
  const byName = new Map<string, Bucket>();
  /** Names of rules that have a single bucket. */
  const singleNames = new WeakMap<Rule, string>();
  let singleCount = 0;
  let overflowed = 0;
  let stopSweeping = clock.after(SWEEP_MS, sweep);

  /** Undefined if there are too many buckets. */
  function find(name: string, limit: CountedLimit, single: boolean): Bucket | undefined {
    const now = clock.now();
    const existing = byName.get(name);
    if (existing !== undefined) {
      existing.usedAt = now;
      if (existing.limit !== limit) change(existing, limit);
      return existing;
    }
    // Includes limits that are leaving: they cannot leave while the store is unavailable.
    if (!single && limits.count() - singleCount >= maxValues()) return undefined;
    const id = LIMIT_PREFIX + digest(name);
    const account = limits.enter(appLimits(id, limit));
    const bucket = { id, limit, account, single, usedAt: now, retryAt: 0 };
    byName.set(name, bucket);
    if (single) singleCount++;
    return bucket;
  }

  function overflow(name: string, limit: CountedLimit): Bucket {
    overflowed++;
    return find(name, limit, true)!;
  }

  function change(bucket: Bucket, limit: CountedLimit): void {
    const before = bucket.limit;
    bucket.limit = limit;
    if (counted.every((field) => before[field] === limit[field])) return;
    bucket.account = limits.enter(appLimits(bucket.id, limit));
    bucket.retryAt = 0;
  }

  function idleMs(): number {
    const used = (limits.count() - singleCount) / Math.max(maxValues(), 1);
    if (used < 0.5) return IDLE_MS;
    return used < 0.8 ? CROWDED_IDLE_MS : FULL_IDLE_MS;
  }

  function sweep(): void {
    stopSweeping = clock.after(SWEEP_MS, sweep);
    const oldest = clock.now() - idleMs();
    for (const [name, bucket] of byName) {
      if (bucket.usedAt > oldest || !limits.letGo(bucket.account)) continue;
      byName.delete(name);
      if (bucket.single) singleCount--;
    }
  }

  return {
    /** The bucket of entries that match the rule. With too many buckets, all further entries of the rule share one. */
    of(rule: Rule, entries: readonly Entry[]): Bucket {
      const known = singleNames.get(rule);
      const single = known !== undefined || hasSingleBucket(rule);
      const name = known ?? bucketName(rule, entries);
      if (single && known === undefined) singleNames.set(rule, name);
      return find(name, rule, single) ?? overflow(overflowName(rule), rule);
    },

    /** The bucket of entries whose limit is sent with the request. */
    ofOverride(domain: string, entries: readonly Entry[], limit: CountedLimit): Bucket {
      const name = overrideName(domain, entries, limit.unit);
      return find(name, limit, false) ?? overflow(overrideName(domain, [], limit.unit), limit);
    },

    stats: () => ({ buckets: byName.size, overflowed }),

    close: () => stopSweeping(),
  };
}

/** The fields that the account depends on. */
const counted = ["label", "perUnit", "unit", "priority", "shadow", "onStoreFailure"] as const;

function appLimits(id: string, limit: CountedLimit): AppLimits {
  const { perUnit, unit, priority, onStoreFailure, shadow, label } = limit;
  const fillSeconds = SECONDS[unit];
  return {
    id,
    label,
    guaranteed: perUnit / fillSeconds,
    burst: perUnit,
    fillSeconds,
    priority,
    onStoreFailure,
    borrow: false,
    dryRun: shadow,
    profile: standardProfile,
  };
}

// Names of buckets: equal on every node for equal values. Ids are digests, so that no value appears in the store.

/** Longer names are replaced by their digest, so that long values do not fill the memory. */
const MAX_NAME_LENGTH = 256;
/** 192 bits in base64url. */
const DIGEST_LENGTH = 32;

/** The length makes names unique: no two lists of fields result in the same name. */
const field = (kind: string, text: string) => `${kind}${text.length}:${text}`;

const digest = (name: string) => createHash("sha256").update(name).digest("base64url").slice(0, DIGEST_LENGTH);

const bounded = (name: string) => (name.length <= MAX_NAME_LENGTH ? name : field("d", digest(name)));

/** All values that match the rule use one bucket. */
function hasSingleBucket({ steps }: Rule): boolean {
  return steps.every(({ value, shared }) => value !== undefined && (shared || !value.includes("*")));
}

/** The bucket of entries that match the rule. */
function bucketName({ domain, steps }: Rule, entries: readonly Entry[]): string {
  let name = field("n", domain);
  for (let i = 0; i < entries.length; i++) {
    const { key, value } = entries[i]!;
    const { value: pattern, shared } = steps[i]!;
    name += field("k", key) + (shared && pattern !== undefined ? field("p", pattern) : field("v", value));
  }
  return bounded(name);
}

/** The bucket of a rule for all values that exceed the maximum number of buckets. */
function overflowName({ domain, steps }: Rule): string {
  let name = field("n", domain);
  for (const { key, value } of steps) name += field("k", key) + (value === undefined ? "a" : field("p", value));
  return bounded(`${name}x`);
}

/** The bucket of entries whose limit is sent with the request. */
function overrideName(domain: string, entries: readonly Entry[], unit: Unit): string {
  let name = field("n", domain);
  for (const { key, value } of entries) name += field("k", key) + field("v", value);
  return bounded(name + field("o", unit));
}
