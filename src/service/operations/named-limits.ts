/** Limits that operators can name: those of `limits`, and descriptor limits of `rate_limits` by their label or name. */
import { limitRules } from "../../config/options/limiter.js";
import { descriptorRules } from "../../config/options/service.js";
import type { Config } from "../../config/schema.js";
import type { AppLimits } from "../../core/app-limits.js";
import { bucketOfRule, isFree } from "../../limiter/descriptors/buckets.js";
import type { Rule } from "../../limiter/descriptors/rules.js";
import { bucketOfValue, bucketPrefix, valueOfBucket } from "../../limiter/limits/limit-values.js";

export interface NamedLimit {
  name: string;
  key: string[];
  rate: string;
  count: "request" | "cost";
  /** The limit of each bucket. */
  limits: Omit<AppLimits, "id">;
  /** The bucket of a value, or a text that says what is wrong with it. */
  bucketOf(value: string): AppLimits | string;
  /** Ids of its buckets begin with this. Undefined: ids are digests, so that values cannot be listed. */
  prefix?: string;
  /** `asked`: the value that the operator gave, if any. */
  valueOf(id: string, asked: string | undefined): string;
}

export const namedLimits = (config: Config): NamedLimit[] => [...ofLimits(config), ...descriptorLimits(config)];

function ofLimits(config: Config): NamedLimit[] {
  return limitRules(config).rules.map((rule, i) => {
    const { name, key, rate, count } = config.limits[i]!;
    return {
      name,
      key,
      rate,
      count,
      limits: rule.limits,
      bucketOf(value) {
        const found = bucketOfValue(rule, value);
        return typeof found === "string" ? found : { ...rule.limits, id: found.id };
      },
      prefix: bucketPrefix(name),
      valueOf: (id) => valueOfBucket(id, name),
    };
  });
}

const unitNames = { second: "s", minute: "min", hour: "h", day: "day", week: "week", month: "month", year: "year" };

export function descriptorLimits(config: Config): NamedLimit[] {
  return descriptorRules(config)
    .filter(({ unlimited }) => !unlimited)
    .map((rule) => {
      const key = rule.steps.filter(isFree).map((step) => step.key);
      const { id: _id, ...limits } = bucketOfRule(rule, []);
      return {
        name: rule.label,
        key,
        rate: `${rule.perUnit}/${unitNames[rule.unit]}`,
        count: "request" as const,
        limits,
        bucketOf: (value) => bucketOfDescriptor(rule, key, value),
        valueOf: (_bucket, asked = "") => asked,
      };
    });
}

function bucketOfDescriptor(rule: Rule, key: string[], value: string): AppLimits | string {
  const values = key.length === 1 ? [value] : value === "" ? [] : value.split(",");
  if (values.length === key.length) return bucketOfRule(rule, values);
  return key.length === 0 ? "must be empty: the limit has one bucket" : `must be ${key.join(",")}`;
}
