/** `consume`: takes tokens of a limit by its name, with a bucket for each key. Requests do not use these limits. */
import { escapeBytes } from "../../core/platform.js";
import { bucketId, type LimitRule, overflowId } from "../../limit-rules/limit-rules.js";
import { systemClock } from "../../shared/clock.js";
import type { Decision, Limiter } from "../limiter.js";
import { sha1 } from "../limits/limit-checks.js";
import { compileLimits } from "../limits/limit-options.js";
import { createValueTable } from "../limits/value-table.js";
import { inBytes } from "./checked-request.js";
import type { BucketOptions } from "./library-options.js";
import { bucketDefaults } from "./option-schema.js";

export interface BucketsOptions {
  buckets: Record<string, BucketOptions>;
  maxValues: number;
}

function rulesOf(buckets: Record<string, BucketOptions>): Map<string, LimitRule> {
  const limits = Object.entries(buckets).map(([name, bucket]) => ({
    ...bucketDefaults,
    ...bucket,
    name,
    key: ["user"],
  }));
  return new Map(compileLimits(limits).rules.map((rule) => [rule.name, rule]));
}

export function createBuckets(limits: Limiter["limits"], options: BucketsOptions) {
  let { maxValues } = options;
  let rules = rulesOf(options.buckets);
  const table = createValueTable<LimitRule>({
    limits,
    clock: systemClock,
    maxValues: () => maxValues,
    idOf: (id) => id,
    limitsOf: (id, rule) => ({ ...rule.limits, id }),
  });

  /** The name of the limit, or the name, a colon and what has its own bucket. */
  function bucketOf(key: string) {
    const colon = key.indexOf(":");
    const name = colon < 0 ? key : key.slice(0, colon);
    const rule = rules.get(name);
    if (rule === undefined) {
      const known = rules.size === 0 ? "there are none" : `there are ${[...rules.keys()].join(", ")}`;
      throw new RangeError(`${JSON.stringify(name)} is not one of the limiter's buckets: ${known}`);
    }
    if (colon < 0) return table.single(bucketId(name, "", sha1), rule);
    const id = bucketId(name, escapeBytes(inBytes(key.slice(colon + 1))), sha1);
    return table.find(id, rule, false) ?? table.single(overflowId(name), rule);
  }

  return {
    consume(key: string, tokens: number): Decision | Promise<Decision> {
      if (!(tokens > 0)) throw new RangeError(`tokens must be above 0, not ${tokens}`);
      return limits.take(bucketOf(key).account, tokens);
    },
    reconfigure(changed: BucketsOptions): void {
      maxValues = changed.maxValues;
      rules = rulesOf(changed.buckets);
    },
    close: table.close,
  };
}
