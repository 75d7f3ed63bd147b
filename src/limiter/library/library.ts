/** The limiter as a library: `createLimiter` opens the store and returns a limiter. */

import { hostname } from "node:os";
import type { AppLimits } from "../../core/app-limits.js";
import { costProfiles, UNKNOWN_LENGTH } from "../../core/cost.js";
import { DEFAULT_APP } from "../../core/identity.js";
import { createLock } from "../../quota/lock.js";
import { type ClusterLimits, createQuota, defaultShards } from "../../quota/quota.js";
import { ShardMismatch } from "../../quota/shard-count.js";
import { createShareRounds } from "../../quota/share-rounds.js";
import { systemClock } from "../../shared/clock.js";
import { openStore } from "../../store/open.js";
import type { Store } from "../../store/store.js";
import { createLimiter as createNodeLimiter, type Limiter } from "../limiter.js";
import { compileLimits } from "../limits/limit-options.js";
import {
  type AppOptions,
  type ClusterOptions,
  type CreateLimiterOptions,
  checkOptions,
  type Limits,
} from "./library-options.js";

export type { AppOptions, CreateLimiterOptions, Limits };

const NODE_TTL_MS = 5_000;
/** Without a service, the library checks for emergencies itself. */
const TICK_MS = 500;

function limitsOf(id: string, limits: AppOptions): AppLimits {
  const { guaranteed, burst = guaranteed * 2, priority = 2, profile = "standard", failOpenTokens } = limits;
  return {
    id,
    guaranteed,
    burst,
    priority,
    borrow: limits.borrow ?? false,
    profile: typeof profile === "string" ? costProfiles[profile] : profile,
    onStoreFailure: limits.onStoreFailure ?? "open",
    ...(failOpenTokens === undefined ? {} : { failOpenTokens }),
    dryRun: limits.dryRun ?? false,
  };
}

/** A limiter that is reconfigured with the library's options. Bodies of unknown length are charged at their end. */
export interface LibraryLimiter extends Omit<Limiter, "reconfigure" | "meter"> {
  /** Applies new limits. `apps` replaces all apps; other omitted options stay. Throws and changes nothing if invalid. */
  reconfigure(limits: Limits & { cluster?: Pick<ClusterOptions, "capacity" | "rate"> | undefined }): void;
}

/**
 * Opens the store and returns a limiter. Rejects if an option is invalid. If the store is unavailable, the limiter starts and decides by
 * `onStoreFailure` until it is there.
 */
export async function createLimiter(options: CreateLimiterOptions): Promise<LibraryLimiter> {
  let limits = options;
  // Checked before the store is opened.
  optionsOf(limits);
  const { store: place = "embedded", node = `${hostname()}:${process.pid}`, observer } = options;
  const store = typeof place === "string" ? openStore(place) : place;
  const quota = createQuota(store, clusterLimits(limits, store));
  try {
    await quota.verify();
  } catch (error) {
    // If the store is unavailable, every call verifies it first.
    if (error instanceof ShardMismatch) {
      if (typeof place === "string") await store.close();
      throw error;
    }
  }
  const limiter = createNodeLimiter({ node, observer, target: quota, ...optionsOf(limits) });
  const shares = quota.shards.length === 1 ? undefined : startShareRounds();
  const ticking = setInterval(() => {
    // The next tick makes up for a failed one; the limiter itself notices that the store is unavailable.
    const decides = shares?.holdsLock() ?? true;
    (decides ? quota.emergencyCheck(10_000, true) : quota.emergencyState(node)).then(
      ({ active }) => limiter.setEmergency(active),
      () => undefined,
    );
  }, TICK_MS);
  ticking.unref();

  /** Without a service, the library also divides L1 among the shards. */
  function startShareRounds() {
    const { id } = clusterLimits(limits, store);
    return createShareRounds({
      quota,
      lock: createLock(store, id, "shares", node),
      clock: systemClock,
      apps: () => allLimits(limits),
      failed: () => undefined,
    });
  }

  return {
    ...limiter,
    reconfigure(changed) {
      const cluster = { ...limits.cluster, ...definedOf(changed.cluster ?? {}) };
      const next = { ...limits, ...definedOf(changed), cluster };
      const changedOptions = optionsOf(next);
      limits = next;
      quota.reconfigure(clusterLimits(next, store));
      limiter.reconfigure({ target: quota, ...changedOptions });
    },
    async close() {
      clearInterval(ticking);
      await Promise.all([limiter.close(), shares?.close()]);
      if (typeof place === "string") await store.close();
    },
  };
}

const allLimits = ({ apps }: Limits) => Object.entries(apps).map(([id, limits]) => limitsOf(id, limits));

function clusterLimits({ cluster = {} }: CreateLimiterOptions, { kind }: Store): ClusterLimits {
  const { id = "cluster-01", capacity = 1_000_000, rate = 500_000, shards = defaultShards(kind) } = cluster;
  return { id, capacity, rate, shards, nodeTtlMs: NODE_TTL_MS };
}

type Defined<T> = { [Name in keyof T]: Exclude<T[Name], undefined> };

/** Options that are undefined count as omitted. */
function definedOf<T extends object>(options: T): Defined<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Defined<T>;
}

/** Throws for invalid options. */
function optionsOf(limits: CreateLimiterOptions) {
  checkOptions(limits);
  const { lease, timeoutMs, failOpenTokens, maxValues } = limits;
  const unknownApps = Object.hasOwn(limits.apps, DEFAULT_APP) ? ("default" as const) : ("reject" as const);
  const rules = compileLimits(limits.limits ?? []);
  return {
    apps: allLimits(limits),
    unknownApps,
    lease: definedOf(lease ?? {}),
    timeoutMs,
    failOpenTokens,
    limits: rules,
    maxValues,
  };
}

/** The declared length of a body, as `check` takes it. */
export function declaredLength(contentLength: string | undefined, transferEncoding: string | undefined): number {
  if (transferEncoding !== undefined) return UNKNOWN_LENGTH;
  if (contentLength === undefined) return 0;
  return /^[0-9]+$/.test(contentLength) ? Number(contentLength) : Number.NaN;
}
