/** The options of `createLimiter`, and their checks. */
import type { Store } from "../../store/store.js";
import type { LimiterObserver } from "../limiter-contract.js";
import { checkObject, isObject, type ObjectRule, type OptionRule } from "./option-checks.js";
import {
  type AppOptions,
  appRules,
  type BucketOptions,
  bucketRules,
  type ClusterOptions,
  type CommonOptions,
  clusterRules,
  commonRules,
  type LeaseOptions,
  type LimitOptions,
  leaseRules,
  limitRules,
} from "./option-schema.js";

export type { AppOptions, BucketOptions, ClusterOptions, CommonOptions, LeaseOptions, LimitOptions };

/** What may change while the limiter runs. */
export interface Limits extends Omit<CommonOptions, "node"> {
  /** Tenants, each with a bucket that pays for its requests. Unlisted apps share "default"; without it they are refused. Without `apps`, requests have only `limits`. */
  apps?: Record<string, AppOptions> | undefined;
  /** Limits per user, address, header and others: all that match a request apply to it. */
  limits?: LimitOptions[] | undefined;
  /** Limits from which `consume` takes tokens, by name. Requests do not use them. */
  buckets?: Record<string, BucketOptions> | undefined;
  lease?: LeaseOptions | undefined;
}

export interface CreateLimiterOptions extends Limits {
  /** "embedded" for one process, a Redis URL, or an open store, which the caller closes. Default: "embedded". */
  store?: string | Store | undefined;
  cluster?: ClusterOptions | undefined;
  node?: CommonOptions["node"];
  observer?: LimiterObserver | undefined;
}

const objectLike = (example: string, rules: ObjectRule): OptionRule => ({
  must: `be an object, for example ${example}`,
  type: "object",
  ...rules,
});
const mapOf = (names: OptionRule | undefined, values: OptionRule): OptionRule => ({
  must: "be an object with limits by name",
  type: "object",
  ...(names === undefined ? {} : { propertyNames: names }),
  additionalProperties: values,
});

const RULES: ObjectRule = {
  required: [],
  properties: {
    apps: mapOf(clusterRules.properties.id, objectLike("{ guaranteed: 100, burst: 200 }", appRules)),
    limits: { must: "be a list", type: "array", items: objectLike('{ name: "per-user", rate: "10/s" }', limitRules) },
    buckets: mapOf(limitRules.properties.name, objectLike('{ rate: "10/s" }', bucketRules)),
    ...commonRules.properties,
    lease: objectLike("{ reserve: 100 }", leaseRules),
    store: { must: 'be "embedded", a Redis URL or a store', format: "store" },
    cluster: objectLike('{ id: "eu" }', clusterRules),
    observer: { must: "be an object", type: "object" },
  },
};

const EXAMPLE = '{ limits: [{ name: "per-user", key: ["user"], rate: "10/s" }] }';

/** Throws an error that names the option and the reason. */
export function checkOptions(options: CreateLimiterOptions): void {
  if (!isObject(options)) throw new TypeError(`createLimiter needs options, for example ${EXAMPLE}`);
  checkObject(options, RULES, "");
  const { apps, limits = [], buckets = {} } = options;
  if (apps === undefined && limits.length === 0 && Object.keys(buckets).length === 0) {
    throw new TypeError(`apps, limits or buckets must be given, for example ${EXAMPLE}`);
  }
  for (const [name, { guaranteed, burst }] of Object.entries(apps ?? {})) {
    // A rate such as 0.3 has a default burst that is not a whole number.
    if (burst === undefined && !Number.isInteger(guaranteed * 2)) {
      throw new RangeError(`apps.${name}.burst must be a whole number; it is twice guaranteed unless it is set`);
    }
  }
  const priced = apps === undefined ? limits.findIndex(({ count }) => count === "cost") : -1;
  if (priced >= 0) throw new RangeError(`limits[${priced}].count must be request without apps, which have the prices`);
  limits.forEach(checkLimit);
  const named = limits.find(({ name }) => Object.hasOwn(buckets, name));
  if (named !== undefined)
    throw new RangeError(`buckets.${named.name} must have another name: there is a limit with it`);
}

function checkLimit({ name, key = [], ...lists }: LimitOptions, i: number, limits: readonly LimitOptions[]): void {
  const before = limits.findIndex((one) => one.name === name);
  if (before < i) throw new RangeError(`limits[${i}].name must be another one: limits[${before}] has the same`);
  for (const option of ["allow", "deny"] as const) {
    if (key.length !== 1 && (lists[option] ?? []).length > 0)
      throw new RangeError(`limits[${i}].${option} requires a key with exactly one part`);
  }
}
