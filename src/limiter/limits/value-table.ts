/** Buckets for values that requests choose: created on first use, limited in number, released when they are idle. */
import type { AppLimits } from "../../core/app-limits.js";
import { evictionOf, FULL_SWEEP_MS, SWEEP_MS } from "../../engine/eviction.js";
import type { Clock } from "../../shared/clock.js";
import type { LimiterAccount } from "../accounts.js";

/** What the table needs of a limiter. */
export interface LimitAccounts {
  /** Adds a limit, brings one back, or changes the numbers of an existing one. `single`: does not count as a value. */
  enter(limits: AppLimits, single?: boolean): LimiterAccount;
  /** The limit is unused: its tokens are returned, then it is deleted. False while requests wait for it. */
  letGo(limit: LimiterAccount): boolean;
  /** Number of values, including those that are leaving: they cannot leave while the store is unavailable. */
  count(): number;
  /** Those that are leaving, of all tables. */
  leavingCount(): number;
}

/** `S` is the rule that the bucket belongs to. */
export interface ValueBucket<S> {
  id: string;
  /** Replaced when the configuration changes. */
  limit: S;
  account: LimiterAccount;
  /** The only bucket of its rule, or the one that values share. These do not count towards the maximum. */
  single: boolean;
  /** At the last sweep after which it was used. */
  usedAt: number;
  /** When the store expects to have tokens again. */
  retryAt: number;
}

export interface ValueTableOptions<S> {
  limits: LimitAccounts;
  clock: Clock;
  maxValues(): number;
  idOf(name: string): string;
  limitsOf(id: string, limit: S): AppLimits;
}

export function createValueTable<S extends object>(options: ValueTableOptions<S>) {
  const { limits, clock, maxValues, idOf, limitsOf } = options;
  const byName = new Map<string, ValueBucket<S>>();
  let overflowed = 0;
  let overflowedAtSweep = 0;
  let sweptAt = 0;
  let stopSweeping: (() => void) | undefined;
  let closed = false;

  function find(name: string, limit: S, single: boolean): ValueBucket<S> | undefined {
    const existing = byName.get(name);
    if (existing !== undefined) {
      existing.account.isUsed = true;
      if (existing.limit !== limit) change(existing, limit);
      return existing;
    }
    const now = clock.now();
    if (!single && limits.count() >= maxValues()) {
      overflowed++;
      if (now - sweptAt >= FULL_SWEEP_MS) sweep();
      return undefined;
    }
    const id = idOf(name);
    const account = limits.enter(limitsOf(id, limit), single);
    const bucket = { id, limit, account, single, usedAt: now, retryAt: 0 };
    byName.set(name, bucket);
    if (!closed) stopSweeping ??= clock.after(SWEEP_MS, onTimer);
    return bucket;
  }

  function change(bucket: ValueBucket<S>, limit: S): void {
    bucket.limit = limit;
    const next = limitsOf(bucket.id, limit);
    if (isSame(bucket.account.limits, next)) return;
    bucket.account = limits.enter(next, bucket.single);
    bucket.retryAt = 0;
  }

  function release(name: string, bucket: ValueBucket<S>): void {
    if (limits.letGo(bucket.account)) byName.delete(name);
  }

  function sweep(): void {
    const now = clock.now();
    sweptAt = now;
    const use = { count: limits.count(), most: maxValues(), hadNoRoom: overflowed !== overflowedAtSweep };
    overflowedAtSweep = overflowed;
    const { idleMs, surplus, surplusIdleMs } = evictionOf({ ...use, oldestFirst: true });
    for (const [name, bucket] of byName) {
      if (bucket.account.isUsed) {
        bucket.account.isUsed = false;
        bucket.usedAt = now;
      }
      if (now - bucket.usedAt >= idleMs) release(name, bucket);
    }
    if (surplus > 0) releaseOldest(surplus, now - surplusIdleMs);
  }

  /** Buckets that are leaving are part of the surplus, so fewer may be released than asked for. */
  function releaseOldest(surplus: number, before: number): void {
    const free = [...byName].filter(([, { single, usedAt }]) => !single && usedAt <= before);
    free.sort(([, one], [, other]) => one.usedAt - other.usedAt);
    for (const [name, bucket] of free.slice(0, Math.max(surplus - limits.leavingCount(), 0))) release(name, bucket);
  }

  function onTimer(): void {
    sweep();
    stopSweeping = byName.size > 0 && !closed ? clock.after(SWEEP_MS, onTimer) : undefined;
  }

  return {
    /** The bucket of this name; undefined if there is no room for it. */
    find,
    /** A bucket that does not count as a value. */
    single: (name: string, limit: S): ValueBucket<S> => find(name, limit, true)!,

    stats: () => ({ buckets: byName.size, overflowed }),

    close(): void {
      closed = true;
      stopSweeping?.();
    },
  };
}

/** The fields that an account depends on. */
const compared = ["label", "guaranteed", "burst", "fillSeconds", "priority", "dryRun", "onStoreFailure"] as const;

function isSame(one: AppLimits, other: AppLimits): boolean {
  return compared.every((field) => one[field] === other[field]);
}
