/** The buckets of descriptor limits on this node, and their names. */

import { createHash } from "node:crypto";
import type { AppLimits } from "../../core/app-limits.js";
import { standardProfile } from "../../core/cost.js";
import { DESCRIPTOR_PREFIX } from "../../core/keys.js";
import type { Clock } from "../../shared/clock.js";
import { createValueTable, type LimitAccounts, type ValueBucket } from "../limits/value-table.js";
import { type Entry, SECONDS, type Unit } from "./descriptor.js";
import type { CountedLimit, Rule } from "./rules.js";

export type Bucket = ValueBucket<CountedLimit>;

export type Buckets = ReturnType<typeof createBuckets>;

export function createBuckets(limits: LimitAccounts, clock: Clock, maxValues: () => number) {
  /** Names of rules that have a single bucket. */
  const singleNames = new WeakMap<Rule, string>();
  const idOf = (name: string) => DESCRIPTOR_PREFIX + digest(name);
  const table = createValueTable({ limits, clock, maxValues, idOf, limitsOf: appLimits });

  return {
    /** The bucket of entries that match the rule. With too many buckets, all further entries of the rule share one. */
    of(rule: Rule, entries: readonly Entry[]): Bucket {
      const known = singleNames.get(rule);
      const single = known !== undefined || hasSingleBucket(rule);
      const name = known ?? bucketName(rule, entries);
      if (single && known === undefined) singleNames.set(rule, name);
      return table.find(name, rule, single) ?? table.single(overflowName(rule), rule);
    },

    /** The bucket of entries whose limit is sent with the request. */
    ofOverride(domain: string, entries: readonly Entry[], limit: CountedLimit): Bucket {
      const name = overrideName(domain, entries, limit.unit);
      return table.find(name, limit, false) ?? table.single(overrideName(domain, [], limit.unit), limit);
    },

    stats: table.stats,

    close: table.close,
  };
}

/** The bucket of a rule, for operators: `values` are those of the entries that do not have one bucket for all values. */
export function bucketOfRule(rule: Rule, values: readonly string[]): AppLimits {
  let next = 0;
  const entries = rule.steps.map(({ key, value, shared }) => ({
    key,
    value: isFree({ value, shared }) ? (values[next++] ?? "") : (value ?? ""),
  }));
  return appLimits(DESCRIPTOR_PREFIX + digest(bucketName(rule, entries)), rule);
}

/** Each value of the entry has its own bucket. */
export function isFree({ value, shared }: Pick<Rule["steps"][number], "value" | "shared">): boolean {
  return value === undefined || (value.includes("*") && !shared);
}

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
  return !steps.some(isFree);
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
