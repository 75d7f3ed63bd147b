/** The options of the library, and their checks, because JavaScript callers have no compiler that checks them. */

import type { OnStoreFailure } from "../../core/app-limits.js";
import { MAX_TOKENS } from "../../core/bucket.js";
import { type CostProfile, costProfiles, standardProfile } from "../../core/cost.js";
import type { LeaseOptions } from "../../core/lease.js";
import { isIdentifier } from "../../core/platform.js";
import { MAX_SHARDS } from "../../core/shard.js";
import { keyPartPattern, keyPartWords } from "../../limit-rules/key-parts.js";
import { LONGEST_NAME } from "../../limit-rules/limit-rules.js";
import type { Store } from "../../store/store.js";
import type { LimiterObserver } from "../limiter-contract.js";
import { type LimitOptions, parseRate } from "../limits/limit-options.js";

export interface AppOptions {
  /** Tokens per second. */
  guaranteed: number;
  /** Maximum tokens; default: twice `guaranteed`. */
  burst?: number | undefined;
  /** In an emergency, 0 is cut last; default 2. */
  priority?: number | undefined;
  /** How requests are priced; default "standard". */
  profile?: keyof typeof costProfiles | CostProfile | undefined;
  borrow?: boolean | undefined;
  /** What to do while the store is unavailable; default "open". */
  onStoreFailure?: OnStoreFailure | undefined;
  /** With "open": tokens per second without the store; default: the app's own rate and burst. */
  failOpenTokens?: number | undefined;
  /** Decide and count, but refuse nothing. */
  dryRun?: boolean | undefined;
}

/** What may change while the limiter runs. */
export interface Limits {
  /** Unlisted apps share "default"; without it they are refused. */
  apps: Record<string, AppOptions>;
  lease?: { [Name in keyof LeaseOptions]?: LeaseOptions[Name] | undefined } | undefined;
  /** Maximum time that a decision waits for the store. */
  timeoutMs?: number | undefined;
  /** `failOpenTokens` of apps without their own. */
  failOpenTokens?: number | undefined;
  /** Limits per user, address, header and others, for requests that are checked with attributes. */
  limits?: LimitOptions[] | undefined;
  /** Maximum number of values of `limits` with their own bucket; default 10,000. */
  maxValues?: number | undefined;
}

export interface ClusterOptions {
  id?: string | undefined;
  capacity?: number | undefined;
  rate?: number | undefined;
  shards?: number | undefined;
}

export interface CreateLimiterOptions extends Limits {
  /** "embedded" for one process, a Redis URL, or an open store, which the caller closes. */
  store?: string | Store | undefined;
  /** Limiters with the same store and cluster share the limits. `shards`: default 16 with Redis Cluster, otherwise 1. */
  cluster?: ClusterOptions | undefined;
  /** The name of this node; default: host name and process id. */
  node?: string | undefined;
  observer?: LimiterObserver | undefined;
}

/** Says what a value must be, if it is not that. */
type Check = (value: unknown) => string | undefined;
/** `Record` makes the compiler reject a list that is not complete. */
type Checks<T> = Record<keyof Required<T>, Check>;

const must = (text: string, isValid: (value: unknown) => boolean): Check => {
  const message = `must be ${text}`;
  return (value) => (isValid(value) ? undefined : message);
};
const number = (least: number, most: number) =>
  must(`a number from ${least} to ${most}`, (value) => typeof value === "number" && value >= least && value <= most);
const whole = (least: number, most: number) =>
  must(
    `a whole number from ${least} to ${most}`,
    (value) => Number.isInteger(value) && Number(value) >= least && Number(value) <= most,
  );
const oneOf = (...values: string[]) => must(values.join(" or "), (value) => values.includes(value as string));
const flag = must("true or false", (value) => typeof value === "boolean");
const object = must("an object", isObject);
const texts = must("a list of texts", (value) => Array.isArray(value) && value.every((one) => typeof one === "string"));
// Ids become part of keys, headers and response bodies without escaping.
const id = must("1 to 128 of A–Z a–z 0–9 . _ : -", (value) => typeof value === "string" && isIdentifier(value));
const anything: Check = () => undefined;

const tokens = number(0, MAX_TOKENS);
const priority = whole(0, 1_000);
const onStoreFailure = oneOf("open", "local", "closed");
const HOUR_MS = 3_600_000;

const KEY_PART = new RegExp(keyPartPattern());

const OPTIONS: Checks<CreateLimiterOptions> = {
  apps: anything,
  lease: object,
  timeoutMs: number(1, HOUR_MS),
  failOpenTokens: tokens,
  limits: must("a list", Array.isArray),
  maxValues: whole(1, 1_000_000),
  store: must('"embedded", a Redis URL or a store', (value) => typeof value === "string" || isObject(value)),
  cluster: object,
  node: id,
  observer: object,
};
const CLUSTER: Checks<NonNullable<CreateLimiterOptions["cluster"]>> = {
  id,
  capacity: tokens,
  rate: tokens,
  shards: whole(1, MAX_SHARDS),
};
const LEASE: Checks<LeaseOptions> = {
  reserve: whole(1, 1_000_000),
  refillThreshold: number(0, 1),
  syncIntervalMs: number(1, HOUR_MS),
  batchThreshold: whole(1, 1_000_000),
  reportIntervalMs: number(1, HOUR_MS),
  idleMs: number(1, HOUR_MS),
};
const APP: Checks<AppOptions> = {
  guaranteed: tokens,
  burst: whole(0, MAX_TOKENS),
  priority,
  profile: must(
    `a profile or one of ${Object.keys(costProfiles).join(", ")}`,
    (value) => isProfile(value) || Object.hasOwn(costProfiles, String(value)),
  ),
  borrow: flag,
  onStoreFailure,
  failOpenTokens: tokens,
  dryRun: flag,
};
const LIMIT: Checks<LimitOptions> = {
  name: must(
    `1 to ${LONGEST_NAME} of A–Z a–z 0–9 . _ -`,
    (value) => typeof value === "string" && value.length <= LONGEST_NAME && /^[A-Za-z0-9._-]+$/.test(value),
  ),
  key: must(
    `a list of ${keyPartWords()}`,
    (value) => Array.isArray(value) && value.every((part) => KEY_PART.test(part)),
  ),
  match: object,
  rate: must(
    "like 10/s, 5/min, 1000/h or 50000/day",
    (value) => typeof value === "string" && parseRate(value) !== undefined,
  ),
  burst: whole(1, MAX_TOKENS),
  count: oneOf("request", "cost"),
  ipv4Prefix: whole(8, 32),
  ipv6Prefix: whole(16, 128),
  pathCase: oneOf("sensitive", "insensitive"),
  allow: texts,
  deny: texts,
  invalidValues: oneOf("reject", "ignore"),
  dryRun: flag,
  priority,
  onStoreFailure,
};
const MATCH: Checks<NonNullable<LimitOptions["match"]>> = {
  route: texts,
  path: texts,
  method: texts,
  app: texts,
  header: must(
    "a list of { name, value }",
    (value) =>
      Array.isArray(value) &&
      value.every(
        (one) => isObject(one) && "name" in one && "value" in one && texts([one.name, one.value]) === undefined,
      ),
  ),
};

const EXAMPLE = "{ apps: { default: { guaranteed: 100, burst: 200 } } }";

/** Throws an error that names the option and the reason. */
export function checkOptions(options: CreateLimiterOptions): void {
  if (!isObject(options)) throw new TypeError(`createLimiter needs options, for example ${EXAMPLE}`);
  checkSection(options, OPTIONS, "");
  if (!isObject(options.apps)) throw new TypeError(`apps is missing: an object with limits by app, as in ${EXAMPLE}`);
  for (const [name, app] of Object.entries(options.apps)) checkApp(name, app);
  checkSection(options.cluster ?? {}, CLUSTER, "cluster.");
  checkSection(options.lease ?? {}, LEASE, "lease.");
  options.limits?.forEach((limit, i) => {
    const at = `limits[${i}]`;
    if (!isObject(limit))
      throw new TypeError(`${at} must be an object, for example { name: "per-user", rate: "10/s" }`);
    checkSection(limit, LIMIT, `${at}.`, ["name", "rate"]);
    checkSection(limit.match ?? {}, MATCH, `${at}.match.`);
  });
}

function checkApp(name: string, app: AppOptions): void {
  if (!isIdentifier(name)) throw new RangeError(`apps: an id ${id(name)}`);
  const at = `apps.${name}`;
  if (!isObject(app)) throw new TypeError(`${at} must be an object, for example { guaranteed: 100, burst: 200 }`);
  checkSection(app, APP, `${at}.`, ["guaranteed"]);
  // A rate such as 0.3 has a default burst that is not a whole number.
  if (app.burst === undefined && !Number.isInteger(app.guaranteed * 2)) {
    throw new RangeError(`${at}.burst must be a whole number; it is twice guaranteed unless it is set`);
  }
}

/** Options that are undefined have their default, unless they are required. */
function checkSection(options: object, checks: Record<string, Check>, at: string, required: string[] = []): void {
  for (const name of new Set([...required, ...Object.keys(options)])) {
    if (!Object.hasOwn(checks, name)) {
      throw new TypeError(`${at}${name} is not an option; there are ${Object.keys(checks).join(", ")}`);
    }
    const value = (options as Record<string, unknown>)[name];
    const problem = value === undefined && !required.includes(name) ? undefined : checks[name]!(value);
    if (problem !== undefined) throw new RangeError(`${at}${name} ${problem}`);
  }
}

function isProfile(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { base, quantum, bandwidth, maxCost } = value as CostProfile;
  const amounts = [
    quantum,
    bandwidth,
    maxCost,
    ...Object.keys(standardProfile.base).map((method) => (base as Record<string, unknown> | undefined)?.[method]),
  ];
  return amounts.every((amount) => typeof amount === "number" && amount >= 0) && quantum > 0;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
