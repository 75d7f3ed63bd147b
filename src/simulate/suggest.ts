/**
 * Suggests rates for the requests of a log: for each app and each limit the lowest rate on a grid that refuses at most a given
 * share. Each rate of the grid is tried on an ideal bucket, all in one pass.
 */
import { appLimits, limitRules } from "../config/options/limiter.js";
import { routePricing } from "../config/options/profiles.js";
import { app as appSection, type Config } from "../config/schema.js";
import { MAX_TOKENS } from "../core/bucket.js";
import { declaredCost, price, pricedBytes } from "../core/cost.js";
import { DEFAULT_APP } from "../core/identity.js";
import { matchLimits } from "../limit-rules/limit-rules.js";
import { sha1 } from "../limiter/limits/limit-checks.js";
import { parseRate } from "../limiter/limits/limit-options.js";
import type { LoggedRequest } from "./logged-request.js";
import { attributesOf } from "./world.js";

/** Shares of requests that a suggested rate may refuse. */
export const SHARES = [0, 0.001, 0.01] as const;

const STEPS = [1, 1.5, 2, 3, 5, 7];
/** Tokens per second of apps: 0.1 to 700,000. */
const APP_RATES = [-1, 0, 1, 2, 3, 4, 5].flatMap((power) => STEPS.map((step) => round(step * 10 ** power)));
/** Tokens per unit of limits: 1 to 500,000. */
const LIMIT_RATES = [0, 1, 2, 3, 4, 5].flatMap((power) => [1, 2, 3, 5, 7].map((step) => step * 10 ** power));
/** Further values of a limit are not tried. */
const MAX_VALUES = 10_000;

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** The buckets of one app or value, one for each rate of the grid. All are full at first. */
interface Buckets {
  /** Missing tokens. */
  missing: Float64Array;
  atMs: number;
}

/** The rates of the grid for an app or a limit, and what each refuses. */
interface Grid {
  rates: readonly number[];
  /** Tokens per second and the burst of each rate. */
  perSecond: Float64Array;
  bursts: Float64Array;
  refused: Uint32Array;
  requests: number;
  /** The highest cost that a request declares: the burst must pay for it. */
  declared: number;
}

function newGrid(rates: readonly number[], seconds: number, burstOf: (rate: number) => number): Grid {
  return {
    rates,
    perSecond: Float64Array.from(rates, (rate) => rate / seconds),
    bursts: Float64Array.from(rates, burstOf),
    refused: new Uint32Array(rates.length),
    requests: 0,
    declared: 0,
  };
}

/** A cost above the burst is paid by a full bucket and leaves a debt, as in the limiter. */
function spend({ perSecond, bursts, refused }: Grid, buckets: Buckets, atMs: number, cost: number): void {
  const seconds = Math.max(atMs - buckets.atMs, 0) / 1000;
  buckets.atMs = Math.max(atMs, buckets.atMs);
  const { missing } = buckets;
  for (let i = 0; i < missing.length; i++) {
    const left = Math.max(missing[i]! - seconds * perSecond[i]!, 0);
    const isRefused = bursts[i]! - left < Math.min(cost, bursts[i]!);
    missing[i] = isRefused ? left : left + cost;
    if (isRefused) refused[i]!++;
  }
}

const newBuckets = ({ rates }: Grid, atMs: number): Buckets => ({ missing: new Float64Array(rates.length), atMs });

/** The index of the lowest rate that refuses at most this share; the highest if none does. */
function lowest({ refused, requests }: Grid, share: number): number {
  const found = refused.findIndex((count) => count <= requests * share);
  return found < 0 ? refused.length - 1 : found;
}

export function createSuggestions(config: Config) {
  const apps = new Map(appLimits(config).map((limits) => [limits.id, limits]));
  const rules = limitRules(config);
  const pricing = routePricing(config);
  const burstOfApp = (rate: number) => Math.max(Math.ceil(rate * 2), 1);
  const ofApps = new Map<string, { grid: Grid; buckets: Buckets }>();
  const ofLimits = new Map<string, { grid: Grid; values: Map<string, Buckets> }>();
  for (const { name, rate, burst } of config.limits) {
    const { tokens, seconds } = parseRate(rate)!;
    /** The burst keeps its relation to the rate. */
    const ratio = (burst ?? tokens) / tokens;
    const grid = newGrid(LIMIT_RATES, seconds, (one) => Math.min(Math.max(Math.round(one * ratio), 1), MAX_TOKENS));
    ofLimits.set(name, { grid, values: new Map() });
  }

  function observe(request: LoggedRequest): void {
    const limits = apps.get(request.app) ?? apps.get(DEFAULT_APP);
    if (limits === undefined) return;
    const { at, method, requestBytes, responseBytes, path } = request;
    const profile = (path === undefined ? undefined : pricing("", path)) ?? limits.profile;
    const cost = price(profile, method, pricedBytes(profile, requestBytes, responseBytes));
    const declared = declaredCost(profile, method, requestBytes);
    let app = ofApps.get(limits.id);
    if (app === undefined) {
      const grid = newGrid(APP_RATES, 1, burstOfApp);
      app = { grid, buckets: newBuckets(grid, at) };
      ofApps.set(limits.id, app);
    }
    count(app.grid, app.buckets, at, { cost, declared });
    if (rules.rules.length === 0) return;
    for (const { rule, id } of matchLimits(rules, { ...attributesOf(request), app: limits.id }, sha1).matches) {
      const ofLimit = ofLimits.get(rule.name);
      if (ofLimit === undefined) continue;
      const { grid, values } = ofLimit;
      let buckets = values.get(id);
      if (buckets === undefined && values.size < MAX_VALUES) {
        buckets = newBuckets(grid, at);
        values.set(id, buckets);
      }
      const own = rule.countsCost ? { cost, declared } : { cost: 1, declared: 1 };
      if (buckets !== undefined) count(grid, buckets, at, own);
    }
  }

  function count(
    grid: Grid,
    buckets: Buckets,
    at: number,
    { cost, declared }: { cost: number; declared: number },
  ): void {
    grid.requests++;
    grid.declared = Math.max(grid.declared, declared);
    spend(grid, buckets, at, cost);
  }

  const chosen = (grid: Grid, share: number) => {
    const at = lowest(grid, share);
    return { rate: grid.rates[at]!, burst: Math.max(grid.bursts[at]!, grid.declared) };
  };

  /** The configuration with the lowest rates that refuse at most this share. Nothing else limits, not even the cluster. */
  function suggested(share: number): Config {
    const ownApps = Object.fromEntries(
      [...ofApps].map(([id, { grid }]) => {
        const { rate, burst } = chosen(grid, share);
        return [id, { ...(config.apps[id] ?? appSection.parse({})), guaranteed: rate, burst }];
      }),
    );
    const limits = config.limits.map((limit) => {
      const ofLimit = ofLimits.get(limit.name);
      if (ofLimit === undefined || ofLimit.grid.requests === 0) return limit;
      const { rate, burst } = chosen(ofLimit.grid, share);
      return { ...limit, rate: `${rate}/${limit.rate.split("/")[1]}`, burst };
    });
    const raised = { capacity: MAX_TOKENS, rate: MAX_TOKENS, automatic_emergency: false };
    const cluster = { ...config.cluster, ...raised };
    return { ...config, cluster, apps: { ...config.apps, ...ownApps }, limits };
  }

  return { observe, suggested };
}
