/** Options of descriptor limits, which Envoy's rate limit service applies. */
import type * as z from "zod";
import { MAX_TOKENS } from "../../core/bucket.js";
import { units } from "../../limiter/descriptors/descriptor.js";
import { anything, flag, list, oneOf, optional, section, whole, words } from "../values.js";
import { onStoreFailure, priority } from "./limits.js";

/** Maximum nesting of descriptors. */
export const DEEPEST_DESCRIPTOR = 8;
export const LONGEST_KEY = 256;
export const LONGEST_VALUE = 1_024;
const MOST_DESCRIPTORS = 10_000;

const rateLimit = section({
  unit: optional(oneOf(...units), "required unless `unlimited`").describe("Unit of time of `requests_per_unit`."),
  requests_per_unit: optional(whole(0, MAX_TOKENS), "required unless `unlimited`").describe(
    "Requests (hits) per unit. This many may arrive at once; tokens refill evenly. 0: refuse all.",
  ),
  unlimited: flag().default(false).describe("Never limit these requests."),
  name: optional(words(LONGEST_KEY), "none").describe("Name for `replaces` of other limits and for clients."),
  replaces: list(words(LONGEST_KEY), 0, 100)
    .default([])
    .describe("Names of limits that are not applied to requests to which this limit applies."),
}).superRefine(({ unit, requests_per_unit, unlimited, name, replaces }, { addIssue }) => {
  const complain = (path: (string | number)[], message: string) => addIssue({ code: "custom", path, message });
  for (const [option, value] of Object.entries({ unit, requests_per_unit })) {
    if (unlimited && value !== undefined) complain([option], "must not be set if unlimited is true");
    if (!unlimited && value === undefined) complain([option], "is required unless unlimited is true");
  }
  replaces.forEach((other, i) => {
    if (other === name) complain(["replaces", i], "must name another limit");
  });
});

const own = {
  key: words(LONGEST_KEY).describe("Key of the descriptor entry at this level."),
  value: optional(words(LONGEST_VALUE), "any value, each with its own bucket").describe(
    "Value of the entry; `*` matches any characters. Exact values take precedence, then patterns in their order, then rules without a value.",
  ),
  rate_limit: optional(rateLimit, "no limit at this level").describe(
    "Limit of descriptors that end here; longer ones continue in `descriptors`.",
  ),
  share_threshold: flag()
    .default(false)
    .describe("All values that match a pattern share one bucket; otherwise each has its own."),
  shadow_mode: flag().default(false).describe("Count and report, but never refuse."),
  quota_mode: flag()
    .default(false)
    .describe("Refuse only if all limits of this kind that apply to a request are exhausted."),
  priority: priority("the limit"),
  on_store_failure: onStoreFailure("the whole limit"),
  metadata: optional(anything(), "none").describe("Added to Envoy's dynamic metadata for requests within the limit."),
};

/** A descriptor with its nested descriptors. */
export interface DescriptorConfig extends z.output<z.ZodObject<typeof own>> {
  descriptors: DescriptorConfig[];
}

function descriptorsTo(depth: number): z.ZodType<DescriptorConfig[]> {
  const nested = () =>
    descriptorsTo(depth - 1)
      .default([])
      .describe("Rules for the next entry of the descriptor.");
  const descriptors = list(section(depth === 1 ? own : { ...own, descriptors: nested() }), 0, MOST_DESCRIPTORS);
  const note = depth < DEEPEST_DESCRIPTOR ? { likeSection: "rate_limits[].descriptors[]" } : {};
  return descriptors.meta(note) as unknown as z.ZodType<DescriptorConfig[]>;
}

export const rateLimitDomain = section({
  domain: words(LONGEST_KEY).describe("Domain of Envoy's rate limit filter."),
  descriptors: descriptorsTo(DEEPEST_DESCRIPTOR).default([]).describe("Rules for the first entry of the descriptor."),
});
