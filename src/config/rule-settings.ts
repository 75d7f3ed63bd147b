/** The descriptor rules of a configuration, in the words of the room that keeps them. */

import type { RuleSettings } from "../descriptors/rule-book.js";
import { compileRules, type DescriptorRule, type LimitRule } from "../descriptors/rules.js";
import type { DescriptorConfig } from "./rate-limit-options.js";
import type { Config } from "./schema.js";

export function ruleSettings({ rate_limits, rate_limit_values }: Config): RuleSettings {
  return {
    domains: rate_limits.map(({ domain, descriptors }) => ({ domain, descriptors: descriptors.map(descriptorRule) })),
    maxValues: rate_limit_values,
  };
}

/** What decisions by rules are called in logs and metrics: as many names as there are rules, at most. */
export function ruleLabels(config: Config): string[] {
  const { domains } = ruleSettings(config);
  return [...new Set(compileRules(domains).rules.map(({ label }) => label))];
}

function descriptorRule(descriptor: DescriptorConfig): DescriptorRule {
  const { key, value, share_threshold, descriptors = [] } = descriptor;
  const limit = limitRule(descriptor);
  return {
    key,
    shared: share_threshold,
    ...(value === undefined ? {} : { value }),
    ...(limit === undefined ? {} : { limit }),
    descriptors: descriptors.map(descriptorRule),
  };
}

function limitRule(descriptor: DescriptorConfig): LimitRule | undefined {
  const { rate_limit, shadow_mode, quota_mode, priority, on_store_failure, metadata } = descriptor;
  if (rate_limit === undefined) return undefined;
  const { unit = "second", requests_per_unit = 0, unlimited, name = "", replaces } = rate_limit;
  return {
    ...{ perUnit: requests_per_unit, unit, unlimited, name, replaces, priority },
    ...{ shadow: shadow_mode, quota: quota_mode, onStoreFailure: on_store_failure },
    ...(metadata === undefined ? {} : { metadata }),
  };
}
