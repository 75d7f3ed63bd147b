/** The options of the library, and their checks, because JavaScript callers have no compiler that checks them. */
import { type CostProfile, costProfiles } from "../../core/cost.js";
import { defaultLeaseOptions, type LeaseOptions } from "../../core/lease.js";
import type { OnStoreFailure } from "../../core/limits.js";
import { isIdentifier } from "../../core/platform.js";
import type { Store } from "../../store/store.js";
import type { LimiterObserver } from "../limiter-contract.js";
import type { LimitOptions } from "../limits/limit-options.js";

export interface AppOptions {
  /** Tokens per second. */
  guaranteed: number;
  /** Maximum tokens; default: twice `guaranteed`. */
  burst?: number;
  /** In an emergency, 0 is cut last; default 2. */
  priority?: number;
  /** How requests are priced; default "standard". */
  profile?: keyof typeof costProfiles | CostProfile;
  borrow?: boolean;
  /** What to do while the store is unavailable; default "open". */
  onStoreFailure?: OnStoreFailure;
  /** With "open": tokens per second without the store; default: the app's own rate and burst. */
  failOpenTokens?: number;
  /** Decide and count, but refuse nothing. */
  dryRun?: boolean;
}

/** What may change while the limiter runs. */
export interface Limits {
  /** Unlisted apps share "default"; without it they are refused. */
  apps: Record<string, AppOptions>;
  lease?: Partial<LeaseOptions>;
  /** Maximum time that a decision waits for the store. */
  timeoutMs?: number;
  /** `failOpenTokens` of apps without their own. */
  failOpenTokens?: number;
  /** Limits per user, address, header and others, for requests that are checked with attributes. */
  limits?: LimitOptions[];
  /** Maximum number of values of `limits` with their own bucket; default 10,000. */
  maxValues?: number;
}

export interface CreateLimiterOptions extends Limits {
  /** "embedded" for one process, a Redis URL, or an open store, which the caller closes. */
  store?: string | Store;
  /** Limiters with the same store and cluster share the limits. `shards`: default 16 with Redis Cluster, otherwise 1. */
  cluster?: { id?: string; capacity?: number; rate?: number; shards?: number };
  /** The name of this node; default: host name and process id. */
  node?: string;
  observer?: LimiterObserver;
}

type Names<T> = Record<keyof Required<T>, true>;

/** `Record` makes the compiler reject a list that is not complete. */
const OPTIONS: Names<CreateLimiterOptions> = {
  apps: true,
  lease: true,
  timeoutMs: true,
  failOpenTokens: true,
  limits: true,
  maxValues: true,
  store: true,
  cluster: true,
  node: true,
  observer: true,
};
const CLUSTER: Names<NonNullable<CreateLimiterOptions["cluster"]>> = {
  id: true,
  capacity: true,
  rate: true,
  shards: true,
};
const APP: Names<AppOptions> = {
  guaranteed: true,
  burst: true,
  priority: true,
  profile: true,
  borrow: true,
  onStoreFailure: true,
  failOpenTokens: true,
  dryRun: true,
};
const LIMIT: Names<LimitOptions> = {
  name: true,
  key: true,
  match: true,
  rate: true,
  burst: true,
  count: true,
  ipv4Prefix: true,
  ipv6Prefix: true,
  allow: true,
  deny: true,
  invalidValues: true,
  dryRun: true,
  priority: true,
  onStoreFailure: true,
};
const MATCH: Names<NonNullable<LimitOptions["match"]>> = {
  route: true,
  path: true,
  method: true,
  app: true,
  header: true,
};

const EXAMPLE = "{ apps: { default: { guaranteed: 100, burst: 200 } } }";

/** Throws an error that names the option and the reason. */
export function checkOptions(options: CreateLimiterOptions): void {
  if (!isObject(options)) throw new TypeError(`createLimiter needs options, for example ${EXAMPLE}`);
  checkNames(options, OPTIONS, "");
  if (!isObject(options.apps)) throw new TypeError(`apps is missing: an object with limits by app, as in ${EXAMPLE}`);
  for (const [id, app] of Object.entries(options.apps)) checkApp(id, app);
  checkSection(options.cluster, CLUSTER, "cluster");
  checkSection(options.lease, defaultLeaseOptions, "lease");
  const { limits = [] } = options;
  if (!Array.isArray(limits)) throw new TypeError("limits must be a list");
  limits.forEach((limit, i) => {
    checkSection(limit, LIMIT, `limits[${i}]`);
    checkSection(limit.match, MATCH, `limits[${i}].match`);
  });
}

function checkApp(id: string, app: AppOptions): void {
  // Ids become part of keys, headers and response bodies without escaping.
  if (!isIdentifier(id)) throw new RangeError("apps: an id must be 1 to 128 of A–Z a–z 0–9 . _ : -");
  const at = `apps.${id}`;
  if (!isObject(app)) throw new TypeError(`${at} must be an object, for example { guaranteed: 100, burst: 200 }`);
  checkNames(app, APP, `${at}.`);
  const { guaranteed, burst = guaranteed * 2, priority = 2, failOpenTokens = 0 } = app;
  for (const [field, value] of Object.entries({ guaranteed, burst, priority, failOpenTokens })) {
    if (!(value >= 0 && value <= 1e9)) throw new RangeError(`${at}.${field} must be a number from 0 to 1e9`);
  }
  for (const [field, value] of Object.entries({ burst, priority })) {
    if (!Number.isInteger(value)) throw new RangeError(`${at}.${field} must be a whole number`);
  }
  const { profile = "standard", onStoreFailure = "open" } = app;
  const profiles = Object.keys(costProfiles);
  if (!isObject(profile) && !profiles.includes(profile)) {
    throw new RangeError(`${at}.profile must be a profile or one of ${profiles.join(", ")}`);
  }
  if (!["open", "local", "closed"].includes(onStoreFailure)) {
    throw new RangeError(`${at}.onStoreFailure must be open, local or closed`);
  }
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function checkSection(section: object | undefined, known: object, at: string): void {
  if (section === undefined) return;
  if (!isObject(section)) throw new TypeError(`${at} must be an object`);
  checkNames(section, known, `${at}.`);
}

function checkNames(options: object, known: object, at: string): void {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(known, name));
  if (unknown === undefined) return;
  throw new TypeError(`${at}${unknown} is not an option; there are ${Object.keys(known).join(", ")}`);
}
