/** What a request asks: of which limit each of its descriptors wants tokens, and how many. */
import { isIdentifier } from "../core/platform.js";
import type { Bucket, createBuckets } from "./buckets.js";
import type { Descriptor, Entry } from "./rule-book.js";
import { type CompiledRules, type CountedLimit, limitLabel, type Rule } from "./rules.js";
import type { Unit } from "./unit.js";

/** In this domain the entry `app_id` names an app of the configuration: its tokens are asked for. */
export const APPS_DOMAIN = "tollgate";
export const APP_ENTRY = "app_id";

/** Envoy has no word for these with a limit of its own, so they are as for apps. */
const OVERRIDE = { priority: 2, onStoreFailure: "open" } as const;
/** More limits than these come with requests only by mistake; they are then made anew each time. */
const MOST_OVERRIDES = 1_000;

/** Nobody limits it, or nothing could run out. */
export interface FreeQuestion {
  kind: "free";
  unlimited: boolean;
}

export interface BucketQuestion {
  kind: "bucket";
  limit: CountedLimit;
  bucket: Bucket;
  hits: number;
  negative: boolean;
}

export interface AppQuestion {
  kind: "app";
  app: string;
  hits: number;
  negative: boolean;
}

/** The id of an app that cannot be one. */
export interface BadQuestion {
  kind: "bad";
}

export type Question = FreeQuestion | BucketQuestion | AppQuestion | BadQuestion;

const FREE: FreeQuestion = { kind: "free", unlimited: false };
const UNLIMITED: FreeQuestion = { kind: "free", unlimited: true };
const BAD: BadQuestion = { kind: "bad" };

export function createQuestions(buckets: Pick<ReturnType<typeof createBuckets>, "of" | "ofOverride">) {
  const overrides = new Map<string, CountedLimit>();

  function overriding(domain: string, perUnit: number, unit: Unit): CountedLimit {
    const name = `${perUnit} ${unit} ${domain}`;
    let limit = overrides.get(name);
    if (limit === undefined) {
      if (overrides.size >= MOST_OVERRIDES) overrides.clear();
      const named = { name: "", replaces: [], label: limitLabel(domain, "override") };
      limit = { ...{ perUnit, unit, unlimited: false, shadow: false, quota: false }, ...OVERRIDE, ...named };
      overrides.set(name, limit);
    }
    return limit;
  }

  /** All limits first: one may replace another, and tokens of that one are then not asked for. */
  function ofRules(rules: CompiledRules, domain: string, descriptors: readonly Descriptor[], hits: number): Question[] {
    let replaced: Set<string> | undefined;
    const limits = descriptors.map(({ entries, override }) => {
      if (override !== undefined) return overriding(domain, override.perUnit, override.unit);
      const rule = rules.match(domain, entries);
      if (rule !== undefined && rule.replaces.length > 0) {
        replaced ??= new Set();
        for (const name of rule.replaces) replaced.add(name);
      }
      return rule;
    });
    return limits.map((limit, i) => {
      if (limit === undefined) return FREE;
      if (limit.unlimited) return UNLIMITED;
      if (limit.name !== "" && replaced?.has(limit.name)) return FREE;
      const { entries, negative = false, hits: own = hits } = descriptors[i]!;
      const bucket = isRule(limit) ? buckets.of(limit, entries) : buckets.ofOverride(domain, entries, limit);
      return { kind: "bucket", limit, bucket, hits: own, negative };
    });
  }

  function ofApp({ entries, negative = false, hits: own }: Descriptor, hits: number): Question {
    const app = appOf(entries);
    if (app === undefined) return FREE;
    return isIdentifier(app) ? { kind: "app", app, hits: own ?? hits, negative } : BAD;
  }

  return (rules: CompiledRules, domain: string, descriptors: readonly Descriptor[], hits: number): Question[] => {
    if (domain === APPS_DOMAIN) return descriptors.map((descriptor) => ofApp(descriptor, hits));
    // Also with a limit of its own: who names no domain of ours is not known here.
    if (!rules.hasDomain(domain)) return descriptors.map(() => FREE);
    return ofRules(rules, domain, descriptors, hits);
  };
}

const isRule = (limit: CountedLimit): limit is Rule => Object.hasOwn(limit, "steps");

function appOf(entries: readonly Entry[]): string | undefined {
  for (const { key, value } of entries) if (key === APP_ENTRY) return value;
  return undefined;
}
