/** Options of descriptor limits, which Envoy's rate limit service applies. */
import type * as z from "zod";
import { MAX_TOKENS } from "../../core/bucket.js";
import { units } from "../../descriptors/unit.js";
import { anything, flag, kindNotes, list, oneOf, otherwise, section, whole, words } from "../values.js";

/** Maximum nesting of descriptors. */
export const DEEPEST_DESCRIPTOR = 8;
export const LONGEST_KEY = 256;
export const LONGEST_VALUE = 1_024;
const MOST_DESCRIPTORS = 10_000;

const rateLimit = section({
  unit: otherwise(
    "required unless `unlimited`",
    oneOf(...units)
      .optional()
      .describe("Unit of time of `requests_per_unit`."),
  ),
  requests_per_unit: otherwise(
    "required unless `unlimited`",
    whole(0, MAX_TOKENS)
      .optional()
      .describe("Requests (hits) per unit. This many may arrive at once; tokens refill evenly. 0: refuse all."),
  ),
  unlimited: flag().default(false).describe("Never limit these requests."),
  name: otherwise(
    "none",
    words(LONGEST_KEY).optional().describe("Name for `replaces` of other limits and for clients."),
  ),
  replaces: list(words(LONGEST_KEY), 0, 100)
    .default([])
    .describe("Names of limits that are not applied to requests to which this limit applies."),
}).superRefine(({ unit, requests_per_unit, unlimited, name, replaces }, { addIssue }) => {
  const complain = (path: (string | number)[], message: string) => addIssue({ code: "custom", path, message });
  if (unlimited && unit !== undefined) complain(["unit"], "must not be set if unlimited is true");
  if (unlimited && requests_per_unit !== undefined) {
    complain(["requests_per_unit"], "must not be set if unlimited is true");
  }
  if (!unlimited && unit === undefined) complain(["unit"], "is required unless unlimited is true");
  if (!unlimited && requests_per_unit === undefined)
    complain(["requests_per_unit"], "is required unless unlimited is true");
  replaces.forEach((other, i) => {
    if (other === name) complain(["replaces", i], "must name another limit");
  });
});

const own = {
  key: words(LONGEST_KEY).describe("Key of the descriptor entry at this level."),
  value: otherwise(
    "any value, each with its own bucket",
    words(LONGEST_VALUE)
      .optional()
      .describe(
        "Value of the entry; `*` matches any characters. Exact values take precedence, then patterns in their order, then rules without a value.",
      ),
  ),
  rate_limit: otherwise(
    "no limit at this level",
    rateLimit.optional().describe("Limit of descriptors that end here; longer ones continue in `descriptors`."),
  ),
  share_threshold: flag()
    .default(false)
    .describe("All values that match a pattern share one bucket; otherwise each has its own."),
  shadow_mode: flag().default(false).describe("Count and report, but never refuse."),
  quota_mode: flag()
    .default(false)
    .describe("Refuse only if all limits of this kind that apply to a request are exhausted."),
  priority: whole(0, 1_000)
    .default(2)
    .describe("In an emergency, priority 0 keeps 100 % of the limit, 1 keeps 50 %, 2 keeps 10 %, others are blocked."),
  on_store_failure: oneOf("open", "local", "closed")
    .default("open")
    .describe(
      "Without the store: admit up to `fail_open_tokens` per second, the node's share of the limit, or nothing.",
    ),
  metadata: otherwise(
    "none",
    anything().optional().describe("Added to Envoy's dynamic metadata for requests within the limit."),
  ),
};

/** A descriptor with its nested descriptors. */
export interface DescriptorConfig extends z.output<z.ZodObject<typeof own>> {
  descriptors: DescriptorConfig[];
}

const within = "Rules for the next entry of the descriptor.";

function descriptorsTo(depth: number): z.ZodType<DescriptorConfig[]> {
  const descriptors =
    depth === 1
      ? list(section(own), 0, MOST_DESCRIPTORS)
      : list(
          section({
            ...own,
            descriptors: descriptorsTo(depth - 1)
              .default([])
              .describe(within),
          }),
          0,
          MOST_DESCRIPTORS,
        );
  if (depth < DEEPEST_DESCRIPTOR) {
    kindNotes.add(descriptors, { ...kindNotes.get(descriptors), likeSection: "rate_limits[].descriptors[]" });
  }
  return descriptors as unknown as z.ZodType<DescriptorConfig[]>;
}

export const rateLimitDomain = section({
  domain: words(LONGEST_KEY).describe("Domain of Envoy's rate limit filter."),
  descriptors: descriptorsTo(DEEPEST_DESCRIPTOR).default([]).describe("Rules for the first entry of the descriptor."),
});
