/** Short notations for rules in tests. */
import type { DescriptorRule, DomainRules, LimitRule } from "../../../../src/limiter/descriptors/rules.js";

export function limit(perUnit: number, unit: LimitRule["unit"] = "hour", more: Partial<LimitRule> = {}): LimitRule {
  return {
    perUnit,
    unit,
    unlimited: false,
    name: "",
    replaces: [],
    shadow: false,
    quota: false,
    priority: 0,
    onStoreFailure: "closed",
    ...more,
  };
}

/** `rule("key=value", limit(5), [nested…])`; without `=value`, any value matches. */
export function rule(
  entry: string,
  own?: LimitRule,
  descriptors: DescriptorRule[] = [],
  shared = false,
): DescriptorRule {
  const [key = "", ...value] = entry.split("=");
  return {
    key,
    shared,
    descriptors,
    ...(value.length === 0 ? {} : { value: value.join("=") }),
    ...(own === undefined ? {} : { limit: own }),
  };
}

export const domain = (...descriptors: DescriptorRule[]): DomainRules => ({ domain: "shop", descriptors });

/** `entries("key=value", "key=value")` */
export const entries = (...all: string[]) =>
  all.map((entry) => {
    const [key = "", ...value] = entry.split("=");
    return { key, value: value.join("=") };
  });
