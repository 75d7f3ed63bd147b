/** Finds the limit that each descriptor selects, and how many tokens it takes of it. */
import { isIdentifier } from "../core/platform.js";
import type { Bucket, Buckets } from "./buckets.js";
import type { Descriptor } from "./descriptor.js";
import { type CompiledRules, type CountedLimit, limitLabel, type Rule } from "./rules.js";

/** In this domain, the entry `app_id` names a configured app, and tokens of that app are taken. */
export const APPS_DOMAIN = "tollgate";
const APP_ENTRY = "app_id";

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
  /** Finds all limits first: a limit that another one of the request replaces takes no tokens. */
  function ofRules(
    rules: CompiledRules,
    domain: string,
    descriptors: readonly Descriptor[],
    hits: number,
  ): LimitRequest[] {
    const limits = descriptors.map(({ entries, override }) =>
      override === undefined ? rules.match(domain, entries) : overrideLimit(domain, override),
    );
    const replaced = limits.flatMap((limit) => limit?.replaces ?? []);
    return limits.map((limit, i) => {
      if (limit === undefined) return NONE;
      if (limit.unlimited) return UNLIMITED;
      if (limit.name !== "" && replaced.includes(limit.name)) return NONE;
      const { entries, negative = false, hits: own = hits } = descriptors[i]!;
      const bucket = isRule(limit) ? buckets.of(limit, entries) : buckets.ofOverride(domain, entries, limit);
      return { kind: "bucket", limit, bucket, hits: own, negative };
    });
  }

  return (rules: CompiledRules, domain: string, descriptors: readonly Descriptor[], hits: number): LimitRequest[] => {
    if (domain === APPS_DOMAIN) return descriptors.map((descriptor) => ofApp(descriptor, hits));
    // Overrides do not apply to unknown domains either.
    if (!rules.hasDomain(domain)) return descriptors.map(() => NONE);
    return ofRules(rules, domain, descriptors, hits);
  };
}

/** Priority and behaviour without the store are not part of the protocol: these are the defaults of rules. */
function overrideLimit(domain: string, { perUnit, unit }: NonNullable<Descriptor["override"]>): CountedLimit {
  return {
    perUnit,
    unit,
    unlimited: false,
    name: "",
    replaces: [],
    shadow: false,
    quota: false,
    priority: 2,
    onStoreFailure: "open",
    label: limitLabel(domain, "override"),
  };
}

function ofApp({ entries, negative = false, hits: own }: Descriptor, hits: number): LimitRequest {
  const app = entries.find(({ key }) => key === APP_ENTRY)?.value;
  if (app === undefined) return NONE;
  return isIdentifier(app) ? { kind: "app", app, hits: own ?? hits, negative } : INVALID_APP;
}

const isRule = (limit: CountedLimit): limit is Rule => Object.hasOwn(limit, "steps");
