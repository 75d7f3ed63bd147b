/** Maps `rate_limits` of the configuration to the rules of descriptor limits. */
import type { DescriptorOptions } from "../../descriptors/descriptor-limiter.js";
import { compileRules, type DescriptorRule, type LimitRule } from "../../descriptors/rules.js";
import type { Config } from "../schema.js";
import type { DescriptorConfig } from "../sections/rate-limits.js";

export function descriptorOptions({ rate_limits, rate_limit_values }: Config): DescriptorOptions {
  return {
    domains: rate_limits.map(({ domain, descriptors }) => ({ domain, descriptors: descriptors.map(descriptorRule) })),
    maxValues: rate_limit_values,
  };
}

/** The names of descriptor limits in logs and metrics: at most one per rule. */
export function descriptorLabels(config: Config): string[] {
  const { domains } = descriptorOptions(config);
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
  const { rate_limit, metadata } = descriptor;
  if (rate_limit === undefined) return undefined;
  return {
    perUnit: rate_limit.requests_per_unit ?? 0,
    unit: rate_limit.unit ?? "second",
    unlimited: rate_limit.unlimited,
    name: rate_limit.name ?? "",
    replaces: rate_limit.replaces,
    priority: descriptor.priority,
    shadow: descriptor.shadow_mode,
    quota: descriptor.quota_mode,
    onStoreFailure: descriptor.on_store_failure,
    ...(metadata === undefined ? {} : { metadata }),
  };
}
