/** Finds the limit that each descriptor selects, and how many tokens it takes of it. */
import { INVALID_IDENTITY, OK } from "../../core/codes.js";
import { isIdentifier } from "../../core/platform.js";
import type { Bucket, Buckets } from "./buckets.js";
import type { Descriptor, DescriptorStatus } from "./descriptor.js";
import { type CompiledRules, type CountedLimit, limitLabel, type Rule } from "./rules.js";

/** In this domain, the entry `app_id` names a configured app, and tokens of that app are taken. */
export const APPS_DOMAIN = "tollgate";
const APP_ENTRY = "app_id";

/** Tokens to take of a bucket or of an app. */
export interface LimitRequest {
  hits: number;
  negative: boolean;
  /** Unset for an app. */
  bucket?: Bucket;
  app: string;
}

/** Known without taking tokens. */
const NO_LIMIT: DescriptorStatus = {
  allowed: true,
  code: OK,
  unlimited: false,
  remaining: 0,
  resetMs: 0,
  retryAfterMs: 0,
  shadow: false,
};
const UNLIMITED: DescriptorStatus = { ...NO_LIMIT, unlimited: true };
/** The value of `app_id` is not a valid app id. */
const INVALID_APP: DescriptorStatus = { ...NO_LIMIT, allowed: false, code: INVALID_IDENTITY };

export type Found = DescriptorStatus | LimitRequest;

export const isRequest = (found: Found): found is LimitRequest => "hits" in found;

/** `hits` applies to descriptors without their own. */
export function findLimits(
  { rules, buckets }: { rules: CompiledRules; buckets: Buckets },
  domain: string,
  descriptors: readonly Descriptor[],
  hits: number,
): Found[] {
  if (domain === APPS_DOMAIN) return descriptors.map((descriptor) => ofApp(descriptor, hits));
  // Overrides do not apply to unknown domains either.
  if (!rules.hasDomain(domain)) return descriptors.map(() => NO_LIMIT);
  // Finds all limits first: a limit that another one of the request replaces takes no tokens.
  const limits = descriptors.map(({ entries, override }) =>
    override === undefined ? rules.match(domain, entries) : overrideLimit(domain, override),
  );
  const replaced = limits.flatMap((limit) => limit?.replaces ?? []);
  return limits.map((limit, i) => {
    if (limit === undefined) return NO_LIMIT;
    if (limit.unlimited) return UNLIMITED;
    if (limit.name !== "" && replaced.includes(limit.name)) return NO_LIMIT;
    const { entries, negative = false, hits: own = hits } = descriptors[i]!;
    const bucket = isRule(limit) ? buckets.of(limit, entries) : buckets.ofOverride(domain, entries, limit);
    return { bucket, app: "", hits: own, negative };
  });
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

function ofApp({ entries, negative = false, hits: own }: Descriptor, hits: number): Found {
  const app = entries.find(({ key }) => key === APP_ENTRY)?.value;
  if (app === undefined) return NO_LIMIT;
  return isIdentifier(app) ? { app, hits: own ?? hits, negative } : INVALID_APP;
}

const isRule = (limit: CountedLimit): limit is Rule => Object.hasOwn(limit, "steps");
