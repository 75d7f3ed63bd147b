/** The limiter as a library: one call opens the store, joins the cluster and answers a limiter that is ready to check. */

import { hostname } from "node:os";
import { type CostProfile, costProfiles, UNKNOWN_LENGTH } from "../core/cost.js";
import { DEFAULT_APP } from "../core/identity.js";
import type { LeaseOptions } from "../core/lease.js";
import type { AppLimits, OnStoreFailure } from "../core/limits.js";
import { createQuota, type Quota } from "../quota/quota.js";
import { openStore } from "../store/open.js";
import type { Store } from "../store/store.js";
import { createLimiter as createEngine, type Limiter, type LimiterObserver } from "./limiter.js";

export interface AppOptions {
  /** Tokens per second. */
  guaranteed: number;
  /** Tokens at most; twice the guaranteed ones unless given. */
  burst?: number;
  /** 0 is the last to be cut in an emergency; 2 unless given. */
  priority?: number;
  /** How requests are priced: a profile of that name, or one of your own; "standard" unless given. */
  profile?: keyof typeof costProfiles | CostProfile;
  borrow?: boolean;
  /** What to do while the store is gone; "open" unless given. */
  onStoreFailure?: OnStoreFailure;
  /** Decide and record, but refuse nothing; for trying a limit out. */
  dryRun?: boolean;
}

/** What may change while the limiter runs. */
export interface Limits {
  /** Apps that are not listed share "default"; without one they are refused. */
  apps: Record<string, AppOptions>;
  lease?: Partial<LeaseOptions>;
  /** No decision waits longer for the store. */
  timeoutMs?: number;
  failOpenTokens?: number;
}

export interface CreateLimiterOptions extends Limits {
  /** "embedded" for one process, or a Redis url; or a store that you opened, and close, yourself. */
  store?: string | Store;
  /** All limiters with the same store and cluster share the limits. */
  cluster?: { id?: string; capacity?: number; rate?: number };
  /** The name of this node; host name and process unless given. */
  node?: string;
  observer?: LimiterObserver;
}

const NODE_TTL_MS = 5_000;
/** Services move the clock of the nodes; a library without a service does it itself. */
const TICK_MS = 500;

/** Throws for limits that are no limits, naming the app and the field. */
function limitedApp(id: string, limits: AppOptions): AppLimits {
  const { guaranteed, burst = guaranteed * 2, priority = 2, profile = "standard" } = limits;
  for (const [field, value] of Object.entries({ guaranteed, burst, priority })) {
    if (!(value >= 0 && value <= 1e9)) throw new RangeError(`apps.${id}.${field} must be a number from 0 to 1e9`);
  }
  for (const [field, value] of Object.entries({ burst, priority })) {
    if (!Number.isInteger(value)) throw new RangeError(`apps.${id}.${field} must be a whole number`);
  }
  return {
    ...{ id, guaranteed, burst, priority },
    borrow: limits.borrow ?? false,
    profile: typeof profile === "string" ? costProfiles[profile] : profile,
    onStoreFailure: limits.onStoreFailure ?? "open",
    dryRun: limits.dryRun ?? false,
  };
}

/** A limiter whose limits are changed in the library's words. */
export interface LibraryLimiter extends Omit<Limiter, "reconfigure"> {
  /**
   * Puts other limits in force, at once and without a request failing for it. `apps` replaces all apps; what else is
   * left out stays as it was. Throws, and changes nothing, for limits that are no limits.
   */
  reconfigure(limits: Limits & { cluster?: { capacity?: number; rate?: number } }): void;
}

export async function createLimiter(options: CreateLimiterOptions): Promise<LibraryLimiter> {
  let limits = options;
  const apps = limitedApps(limits);
  const { store: place = "embedded" } = options;
  const store = typeof place === "string" ? openStore(place) : place;
  let quota = quotaOf(store, limits);
  const engine = createEngine({
    node: options.node ?? `${hostname()}:${process.pid}`,
    ...engineSettings(limits, apps, quota),
    ...(options.observer ? { observer: options.observer } : {}),
  });
  const ticking = setInterval(() => {
    // A tick that fails is made up for by the next one; the limiter itself notices that the store is gone.
    quota.emergencyCheck(10_000, true).then(
      ({ active }) => engine.setEmergency(active),
      () => undefined,
    );
  }, TICK_MS);
  ticking.unref();
  return {
    ...engine,
    reconfigure(changed) {
      const next = { ...limits, ...changed, cluster: { ...limits.cluster, ...changed.cluster } };
      const settings = engineSettings(next, limitedApps(next), quotaOf(store, next));
      limits = next;
      quota = settings.target;
      engine.reconfigure(settings);
    },
    async close() {
      clearInterval(ticking);
      await engine.close();
      if (typeof place === "string") await store.close();
    },
  };
}

const limitedApps = ({ apps }: Limits) => Object.entries(apps).map(([id, limits]) => limitedApp(id, limits));

function quotaOf(store: Store, { cluster = {} }: CreateLimiterOptions): Quota {
  const { id = "cluster-01", capacity = 1_000_000, rate = 500_000 } = cluster;
  return createQuota(store, { id, capacity, rate, nodeTtlMs: NODE_TTL_MS });
}

function engineSettings(limits: Limits, apps: AppLimits[], target: Quota) {
  return {
    target,
    apps,
    unknownApps: Object.hasOwn(limits.apps, DEFAULT_APP) ? ("default" as const) : ("reject" as const),
    ...(limits.lease ? { lease: limits.lease } : {}),
    ...(limits.timeoutMs === undefined ? {} : { timeoutMs: limits.timeoutMs }),
    ...(limits.failOpenTokens === undefined ? {} : { failOpenTokens: limits.failOpenTokens }),
  };
}

/** The declared length of a body, as `check` wants it: the header's value, and whether the body is chunked. */
export function declaredLength(contentLength: string | undefined, transferEncoding: string | undefined): number {
  if (transferEncoding !== undefined) return UNKNOWN_LENGTH;
  if (contentLength === undefined) return 0;
  return /^[0-9]+$/.test(contentLength) ? Number(contentLength) : Number.NaN;
}
