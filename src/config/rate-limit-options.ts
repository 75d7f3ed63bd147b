/** The options of descriptor rules: what Envoy's rate limit service is asked about, and what each of them may spend. */
import type * as z from "zod";
import { MAX_TOKENS } from "../core/bucket.js";
import { units } from "../descriptors/unit.js";
import { anything, flag, kindNotes, list, oneOf, otherwise, section, whole, words } from "./values.js";

/** As deep as descriptors may be nested. */
export const DEEPEST_DESCRIPTOR = 8;
export const LONGEST_KEY = 256;
export const LONGEST_VALUE = 1_024;
const MOST_DESCRIPTORS = 10_000;

const rateLimit = section({
  unit: otherwise(
    "none, where it is unlimited",
    oneOf(...units)
      .optional()
      .describe("The time that the requests are for."),
  ),
  requests_per_unit: otherwise(
    "none, where it is unlimited",
    whole(0, MAX_TOKENS)
      .optional()
      .describe("Requests, or hits, in that time. So many may come at once; they are then replaced evenly. 0: none."),
  ),
  unlimited: flag().default(false).describe("What comes here is never limited."),
  name: otherwise(
    "none",
    words(LONGEST_KEY).optional().describe("What others may replace it by, and clients are told."),
  ),
  replaces: list(words(LONGEST_KEY), 0, 100)
    .default([])
    .describe("Names of limits that do not count in a request in which this one does."),
}).superRefine(({ unit, requests_per_unit, unlimited, name, replaces }, { addIssue }) => {
  const complain = (path: (string | number)[], message: string) => addIssue({ code: "custom", path, message });
  if (unlimited && unit !== undefined) complain(["unit"], "must not be given where it is unlimited");
  if (unlimited && requests_per_unit !== undefined) {
    complain(["requests_per_unit"], "must not be given where it is unlimited");
  }
  if (!unlimited && unit === undefined) complain(["unit"], "must be given, or unlimited: true");
  if (!unlimited && requests_per_unit === undefined)
    complain(["requests_per_unit"], "must be given, or unlimited: true");
  replaces.forEach((other, i) => {
    if (other === name) complain(["replaces", i], "must be another limit than this one");
  });
});

const own = {
  key: words(LONGEST_KEY).describe("The key of the descriptor's entry at this place."),
  value: otherwise(
    "any value, each with a bucket of its own",
    words(LONGEST_VALUE)
      .optional()
      .describe(
        "The entry's value; `*` in it stands for any characters. A value as it is comes first, then patterns in their order, then any value.",
      ),
  ),
  rate_limit: otherwise(
    "no limit at this place",
    rateLimit.optional().describe("For descriptors that end here; those with more entries go on in `descriptors`."),
  ),
  share_threshold: flag()
    .default(false)
    .describe("All values that match a pattern share one bucket; else each has its own."),
  shadow_mode: flag().default(false).describe("Counts and reports, but never refuses."),
  quota_mode: flag()
    .default(false)
    .describe("Refuses only where all limits of this kind that a request meets are used up."),
  priority: whole(0, 1_000)
    .default(2)
    .describe("Of its limit: in an emergency 0 keeps all, 1 half, 2 a tenth, the others nothing."),
  on_store_failure: oneOf("open", "local", "closed")
    .default("open")
    .describe(
      "Of its limit, while the store is gone: at most `fail_open_tokens` per second, the node's share, or nothing.",
    ),
  metadata: otherwise("none", anything().optional().describe("For Envoy's dynamic metadata, where the limit is kept.")),
};

/** What stands in a list of descriptors, nested as deep as said. */
export interface DescriptorConfig extends z.output<z.ZodObject<typeof own>> {
  descriptors: DescriptorConfig[];
}

const within = "Rules for the descriptor's next entry.";

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
  domain: words(LONGEST_KEY).describe("The domain that Envoy's filter names."),
  descriptors: descriptorsTo(DEEPEST_DESCRIPTOR).default([]).describe("Rules for the descriptor's first entry."),
});
