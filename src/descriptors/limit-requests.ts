/** Finds the limit that each descriptor selects, and how many tokens it takes of it. */
import { isIdentifier } from "../core/platform.js";
import type { Bucket, Buckets } from "./buckets.js";
import type { Descriptor, Entry } from "./descriptor.js";
import { type CompiledRules, type CountedLimit, limitLabel, type Rule } from "./rules.js";
import type { Unit } from "./unit.js";

/** In this domain, the entry `app_id` names a configured app, and tokens of that app are taken. */
export const APPS_DOMAIN = "tollgate";
const APP_ENTRY = "app_id";

/** Envoy's overrides have no such fields. */
const OVERRIDE_DEFAULTS = { priority: 2, onStoreFailure: "open" } as const;
/** Bounds the memory for different overrides. They are built again when needed. */
const MAX_OVERRIDES = 1_000;

/** No limit applies, or it is unlimited. */
interface NoLimit {
  kind: "none";
  unlimited: boolean;
}

export interface BucketRequest {
  kind: "bucket";
  limit: CountedLimit;
  bucket: Bucket;
  hits: number;
  negative: boolean;
}

export interface AppRequest {
  kind: "app";
  app: string;
  hits: number;
  negative: boolean;
}

/** The value of `app_id` is not a valid app id. */
interface InvalidApp {
  kind: "invalid_app";
}

export type LimitRequest = NoLimit | BucketRequest | AppRequest | InvalidApp;

const NONE: NoLimit = { kind: "none", unlimited: false };
const UNLIMITED: NoLimit = { kind: "none", unlimited: true };
const INVALID_APP: InvalidApp = { kind: "invalid_app" };

export function createLimitRequests(buckets: Pick<Buckets, "of" | "ofOverride">) {
  const overrides = new Map<string, CountedLimit>();

  function overrideLimit(domain: string, perUnit: number, unit: Unit): CountedLimit {
    const key = `${perUnit} ${unit} ${domain}`;
    let limit = overrides.get(key);
    if (limit === undefined) {
      if (overrides.size >= MAX_OVERRIDES) overrides.clear();
      limit = {
        ...OVERRIDE_DEFAULTS,
        perUnit,
        unit,
        unlimited: false,
        shadow: false,
        quota: false,
        name: "",
        replaces: [],
        label: limitLabel(domain, "override"),
      };
      overrides.set(key, limit);
    }
    return limit;
  }

  /** Finds all limits first: a limit that another one of the request replaces takes no tokens. */
  function ofRules(
    rules: CompiledRules,
    domain: string,
    descriptors: readonly Descriptor[],
    hits: number,
  ): LimitRequest[] {
    let replaced: Set<string> | undefined;
    const limits = descriptors.map(({ entries, override }) => {
      if (override !== undefined) return overrideLimit(domain, override.perUnit, override.unit);
      const rule = rules.match(domain, entries);
      if (rule !== undefined && rule.replaces.length > 0) {
        replaced ??= new Set();
        for (const name of rule.replaces) replaced.add(name);
      }
      return rule;
    });
    return limits.map((limit, i) => {
      if (limit === undefined) return NONE;
      if (limit.unlimited) return UNLIMITED;
      if (limit.name !== "" && replaced?.has(limit.name)) return NONE;
      const { entries, negative = false, hits: own = hits } = descriptors[i]!;
      const bucket = isRule(limit) ? buckets.of(limit, entries) : buckets.ofOverride(domain, entries, limit);
      return { kind: "bucket", limit, bucket, hits: own, negative };
    });
  }

  function ofApp({ entries, negative = false, hits: own }: Descriptor, hits: number): LimitRequest {
    const app = appOf(entries);
    if (app === undefined) return NONE;
    return isIdentifier(app) ? { kind: "app", app, hits: own ?? hits, negative } : INVALID_APP;
  }

  return (rules: CompiledRules, domain: string, descriptors: readonly Descriptor[], hits: number): LimitRequest[] => {
    if (domain === APPS_DOMAIN) return descriptors.map((descriptor) => ofApp(descriptor, hits));
    // Overrides do not apply to unknown domains either.
    if (!rules.hasDomain(domain)) return descriptors.map(() => NONE);
    return ofRules(rules, domain, descriptors, hits);
  };
}

const isRule = (limit: CountedLimit): limit is Rule => Object.hasOwn(limit, "steps");

function appOf(entries: readonly Entry[]): string | undefined {
  for (const { key, value } of entries) if (key === APP_ENTRY) return value;
  return undefined;
}
