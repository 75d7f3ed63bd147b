/** The buckets behind rules: made on first use, never more than there is room for, let go when nobody asks for them. */

import { standardProfile } from "../core/cost.js";
import type { AppLimits } from "../core/limits.js";
import type { AppLease } from "../limiter/app-lease.js";
import type { PassingLimits } from "../limiter/passing-limits.js";
import type { Clock } from "../shared/clock.js";
import { closedName, isClosed, limitId, openName, overflowName, overrideName } from "./bucket-name.js";
import type { AppliedLimit, Entry } from "./rule-book.js";
import type { CountedLimit, Rule } from "./rules.js";
import { SECONDS } from "./unit.js";

export interface Bucket {
  /** What it was made for; another one after a change of the configuration. */
  limit: CountedLimit;
  /** As callers are told of it. */
  applied: AppliedLimit;
  lease: AppLease;
  /** One for all values of a rule; else one of many. */
  closed: boolean;
  /** Clock milliseconds. */
  usedAt: number;
  /** When the store said that tokens would be there again. */
  retryAt: number;
}

export interface BucketsOptions {
  limits: PassingLimits;
  clock: Clock;
  /** So many buckets of open rules at most. */
  maxValues(): number;
}

const SWEEP_MS = 1_000;
/** How long a bucket that nobody asks for is kept, by how much of the room is taken. */
const IDLE_MS = 60_000;
const CROWDED_IDLE_MS = 10_000;
const FULL_IDLE_MS = 1_500;

export function createBuckets({ limits, clock, maxValues }: BucketsOptions) {
  const live = new Map<string, Bucket>();
  /** What is always the same for a rule is worked out once. */
  const closedNames = new WeakMap<Rule, string>();
  let closedCount = 0;
  let overflowed = 0;
  let stopSweeping = clock.after(SWEEP_MS, sweep);

  function nameOf(rule: Rule, entries: readonly Entry[]): string | undefined {
    let name = closedNames.get(rule);
    if (name === undefined) {
      name = isClosed(rule) ? closedName(rule) : "";
      closedNames.set(rule, name);
    }
    return name === "" ? openName(rule, entries) : name;
  }

  function find(name: string, limit: CountedLimit, closed: boolean): Bucket | undefined {
    const now = clock.now();
    const known = live.get(name);
    if (known !== undefined) {
      known.usedAt = now;
      if (known.limit !== limit) change(known, limit);
      return known;
    }
    // Those on their way out count, too: while the store is away, they cannot leave.
    if (!closed && limits.count() - closedCount >= maxValues()) return undefined;
    const lease = limits.enter(policyOf(limitId(name), limit));
    const made = { limit, applied: appliedOf(limit), lease, closed, usedAt: now, retryAt: 0 };
    live.set(name, made);
    if (closed) closedCount++;
    return made;
  }

  function change(bucket: Bucket, limit: CountedLimit): void {
    const before = bucket.limit;
    bucket.limit = limit;
    bucket.applied = appliedOf(limit);
    if (isSamePolicy(before, limit)) return;
    bucket.lease = limits.enter(policyOf(bucket.lease.policy.id, limit));
    bucket.retryAt = 0;
  }

  function idleMs(): number {
    const taken = (limits.count() - closedCount) / Math.max(maxValues(), 1);
    if (taken < 0.5) return IDLE_MS;
    return taken < 0.8 ? CROWDED_IDLE_MS : FULL_IDLE_MS;
  }

  function sweep(): void {
    stopSweeping = clock.after(SWEEP_MS, sweep);
    const oldest = clock.now() - idleMs();
    for (const [name, bucket] of live) {
      if (bucket.usedAt > oldest || !limits.letGo(bucket.lease)) continue;
      live.delete(name);
      if (bucket.closed) closedCount--;
    }
  }

  return {
    /** The bucket of these entries, which meet the rule. Where there is no room for one more, all that come share one. */
    of(rule: Rule, entries: readonly Entry[]): Bucket {
      const name = nameOf(rule, entries)!;
      const own = find(name, rule, closedNames.get(rule) === name);
      if (own !== undefined) return own;
      overflowed++;
      return find(overflowName(rule), rule, true)!;
    },

    /** The bucket of entries whose limit came with the request. */
    ofOverride(domain: string, entries: readonly Entry[], limit: CountedLimit): Bucket {
      const own = find(overrideName(domain, entries, limit.unit), limit, false);
      if (own !== undefined) return own;
      overflowed++;
      return find(overrideName(domain, [], limit.unit), limit, true)!;
    },

    stats: () => ({ live: live.size, open: live.size - closedCount, overflowed }),

    close: () => stopSweeping(),
  };
}

const appliedOf = ({ name, perUnit, unit }: CountedLimit): AppliedLimit => ({ name, perUnit, unit });

function policyOf(id: string, limit: CountedLimit): AppLimits {
  const { perUnit, unit, priority, onStoreFailure, shadow, label } = limit;
  const fillSeconds = SECONDS[unit];
  return {
    ...{ id, label, guaranteed: perUnit / fillSeconds, burst: perUnit, fillSeconds, priority, onStoreFailure },
    ...{ borrow: false, dryRun: shadow, profile: standardProfile },
  };
}

function isSamePolicy(a: CountedLimit, b: CountedLimit): boolean {
  return (
    a.label === b.label &&
    a.perUnit === b.perUnit &&
    a.unit === b.unit &&
    a.priority === b.priority &&
    a.shadow === b.shadow &&
    a.onStoreFailure === b.onStoreFailure
  );
}
