/** The limiter as a library: `createLimiter` opens the store and returns a limiter. */

import { hostname } from "node:os";
import type { AppLimits } from "../../core/app-limits.js";
import { costProfiles } from "../../core/cost.js";
import { DEFAULT_APP } from "../../core/identity.js";
import { createLock } from "../../quota/lock.js";
import { type ClusterLimits, createQuota, defaultShards } from "../../quota/quota.js";
import { ShardMismatch } from "../../quota/shard-count.js";
import { createShareRounds } from "../../quota/share-rounds.js";
import { systemClock } from "../../shared/clock.js";
import { openStore } from "../../store/open.js";
import type { Store } from "../../store/store.js";
import { createLimiter as createNodeLimiter, type Decision, type Limiter, type LimiterStats } from "../limiter.js";
import { compileLimits } from "../limits/limit-options.js";
import type { LimitsOutcome } from "../limits/limits-alone.js";
import { createBuckets } from "./buckets.js";
import { attributesOf, type CheckedRequest, contentLengthOf } from "./checked-request.js";
import {
  type AppOptions,
  type ClusterOptions,
  type CreateLimiterOptions,
  checkOptions,
  type Limits,
} from "./library-options.js";
import { isObject } from "./option-checks.js";
import { appDefaults, clusterDefaults, commonDefaults, leaseDefaults, limitDefaults } from "./option-schema.js";
import { decisionOf, type Result, resultOf } from "./results.js";

const NODE_TTL_MS = 5_000;
/** Without a service, the library checks for emergencies itself. */
const TICK_MS = 500;

function limitsOf(id: string, limits: AppOptions): AppLimits {
  const { profile = "standard", burst = limits.guaranteed * 2, ...others } = limits;
  const prices = typeof profile === "string" ? costProfiles[profile] : profile;
  return { ...appDefaults, ...definedOf(others), id, burst, profile: prices };
}

type Deciding = Result | Promise<Result>;

/** Bodies of unknown length are charged at their end. */
export interface LibraryLimiter {
  /**
   * Takes the tokens of a request: of its app and of all limits that match, or of none. Returns a promise only if the request
   * has to wait for the store.
   */
  check(request: CheckedRequest): Result | Promise<Result>;
  /**
   * Takes tokens of one of `buckets`: `consume("emails")` of its only bucket, `consume("emails:anna")` of the bucket of "anna".
   * Throws if the name is unknown.
   */
  consume(key: string, tokens?: number): Result | Promise<Result>;
  /** An admitted exchange has ended: charges or refunds the difference between its price and the estimate. */
  settle(result: Decision, requestBytes: number, responseBytes: number): void;
  /** Takes tokens of an app without a price; 0 takes nothing and returns the current state. */
  take(app: string, tokens: number): Result | Promise<Result>;
  /** Returns tokens of `take`, at most as many as this process has spent. */
  giveBack(app: string, tokens: number): void;
  /** The state of an app in the store, as a decision about one token; nothing is taken. */
  look(app: string): Promise<Result>;
  /** The limits that a request matches, by their state in the store; nothing is taken. */
  lookAtLimits(request: CheckedRequest): Promise<LimitsOutcome>;
  /** Returns tokens of the limits that a request matches. False if the store does not reply. */
  refundLimits(request: CheckedRequest, tokens: number): Promise<boolean>;
  /** The limits of a configured app. */
  limitsOf: Limiter["limitsOf"];
  /** The tokens that this process holds for each app, and what the store had left in its last reply. */
  balances(): ReturnType<Limiter["balances"]>;
  stats(): LimiterStats;
  /** Starts or ends an emergency before the next sync reports it. */
  setEmergency(active: boolean): void;
  /** Applies new limits. `apps`, `limits` and `buckets` replace all of them; what is omitted stays. Throws and changes nothing if invalid. */
  reconfigure(limits: Limits & { cluster?: Pick<ClusterOptions, "capacity" | "rate"> | undefined }): void;
  /** Sends the final report and returns all tokens; waits at most `timeoutMs`. */
  close(): Promise<void>;
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
  const buckets = createBuckets(limiter.limits, bucketOptions(limits));
  let usage = usageOf(limits);
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

  const startTime = observer?.decided === undefined ? () => 0 : systemClock.now;

  /** The limits of a request without an app. */
  function checkAlone(request: CheckedRequest): Deciding {
    const startedMs = startTime();
    const { method = "GET" } = request;
    const made = limiter.checkLimits(attributesOf(request), 1);
    if (!(made instanceof Promise)) return recorded(decisionOf(made, method, false), startedMs);
    return made.then((outcome) => recorded(decisionOf(outcome, method, true), startedMs));
  }

  function recorded(decision: Decision, startedMs: number): Result {
    observer?.decided?.(decision, startTime() - startedMs, decision.source === "remote");
    return resultOf(decision);
  }

  return {
    check(request) {
      if (!isObject(request)) throw new TypeError(OLD_CHECK);
      if (!usage.apps) return checkAlone(request);
      const { app = "", method = "GET" } = request;
      const attributes = usage.limits || request.profile !== undefined ? attributesOf(request) : undefined;
      return resultsOf(limiter.check(app, method, contentLengthOf(request), attributes));
    },
    consume: (key, tokens = 1) => resultsOf(buckets.consume(key, tokens)),
    settle: (result, requestBytes, responseBytes) => limiter.settle(result, requestBytes, responseBytes),
    take: (app, tokens) => resultsOf(limiter.take(app, tokens)),
    giveBack: limiter.giveBack,
    look: async (app) => resultOf(await limiter.look(app)),
    lookAtLimits: async (request) => limiter.lookAtLimits(lookupAttributes(request)),
    refundLimits: async (request, tokens) => limiter.refundLimits(lookupAttributes(request), tokens),
    limitsOf: limiter.limitsOf,
    balances: limiter.balances,
    stats: limiter.stats,
    setEmergency: limiter.setEmergency,
    reconfigure(changed) {
      const cluster = { ...limits.cluster, ...definedOf(changed.cluster ?? {}) };
      const next = { ...limits, ...definedOf(changed), cluster };
      const changedOptions = optionsOf(next);
      limits = next;
      usage = usageOf(next);
      quota.reconfigure(clusterLimits(next, store));
      limiter.reconfigure({ target: quota, ...changedOptions });
      buckets.reconfigure(bucketOptions(next));
    },
    async close() {
      clearInterval(ticking);
      buckets.close();
      await Promise.all([limiter.close(), shares?.close()]);
      if (typeof place === "string") await store.close();
    },
  };
}

const OLD_CHECK =
  'check takes an object: instead of check("red", "GET", 0) write check({ app: "red", method: "GET", contentLength: 0 })';

/** Rejects a request with the former name of `ip`, whose limits would be those of no address. */
function lookupAttributes(request: CheckedRequest) {
  if ("address" in request) throw new TypeError("address is now ip: write { ip } instead of { address }");
  return attributesOf(request);
}

const resultsOf = (made: Decision | Promise<Decision>): Deciding =>
  made instanceof Promise ? made.then(resultOf) : resultOf(made);

/** What requests may have: an app that pays, and other limits. */
const usageOf = ({ apps, limits = [] }: Limits) => ({ apps: apps !== undefined, limits: limits.length > 0 });

const bucketOptions = ({ buckets = {}, maxValues = commonDefaults.maxValues }: Limits) => ({ buckets, maxValues });

const allLimits = ({ apps = {} }: Limits) => Object.entries(apps).map(([id, limits]) => limitsOf(id, limits));

function clusterLimits({ cluster = {} }: CreateLimiterOptions, { kind }: Store): ClusterLimits {
  return { shards: defaultShards(kind), ...clusterDefaults, ...definedOf(cluster), nodeTtlMs: NODE_TTL_MS };
}

type Defined<T> = { [Name in keyof T]: Exclude<T[Name], undefined> };

/** Options that are undefined count as omitted. */
function definedOf<T extends object>(options: T): Defined<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Defined<T>;
}

/** Throws for invalid options. */
function optionsOf(options: CreateLimiterOptions) {
  checkOptions(options);
  const { apps = {}, lease, failOpenTokens, limits = [] } = options;
  const { timeoutMs, maxValues } = { ...commonDefaults, ...definedOf(options) };
  return {
    apps: allLimits(options),
    unknownApps: Object.hasOwn(apps, DEFAULT_APP) ? ("default" as const) : ("reject" as const),
    lease: { ...leaseDefaults, ...definedOf(lease ?? {}) },
    timeoutMs,
    failOpenTokens,
    limits: compileLimits(limits.map((limit) => ({ ...limitDefaults, ...definedOf(limit) }))),
    maxValues,
  };
}
