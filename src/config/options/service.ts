/** Maps the configuration to the options of the service: access control, metrics, and its parts for Envoy. */
import type { HeaderOptions } from "../../core/response-headers.js";
import type { DescriptorOptions } from "../../limiter/descriptors/descriptor-limiter.js";
import { compileRules, type DescriptorRule, type LimitRule, type Rule } from "../../limiter/descriptors/rules.js";
import { mostValues } from "../../limiter/limits/plane-values.js";
import type { BudgetName } from "../../shared/access/plane-budgets.js";
import type { OverloadLimits } from "../../shared/overload.js";
import { type PushDestination, parsePushUrl } from "../push-url.js";
import type { Config } from "../schema.js";
import type { DescriptorConfig } from "../sections/rate-limits.js";
import { type CamelCase, camelCase } from "./camel-case.js";
import { appLimits, headerOptions } from "./limiter.js";
import { routeName, slotLimits } from "./slots.js";

/** Who may call the control listener. */
export type AccessOptions = Omit<CamelCase<Config["control"]>, "listen" | "tls" | "operators" | "viewers" | "planes"> &
  Pick<Config["control"], "operators" | "viewers" | "planes">;

export function accessOptions({ control: { operators, viewers, planes, ...control } }: Config): AccessOptions {
  return { ...camelCase(control), operators, viewers, planes };
}

/** Planes that share the common token may be many. */
const COMMON_FACTOR = 4;
/** Processes of one node, those from before a reload included. */
const PROXIES_PER_NODE = 8;
/** Distinct pods of a route with targets from DNS. */
const MOST_PODS = 1_000;
/** Connections that a plane may name per second, at least: new ones, renewals and releases. */
const LEAST_SLOTS = 2_000;
/** Slots are renewed three times per lease; the rest is for repeated calls and for other messages about them. */
const NAMED_PER_LEASE = 12;

export type PlaneBudget = (budget: BudgetName, isCommon: boolean) => number;

/** What one data plane, or all planes with the common token, may use. */
export function planeBudget(config: Config): PlaneBudget {
  const { nodes, bytes_per_second: bytes } = config.control.plane_limits;
  const slots = [...slotLimits(config.routes, config.upstreams)].map(([route, { maxTotal, maxPerPod, leaseMs }]) => {
    const targets = config.routes.find((one) => routeName(one) === route)?.upstream ?? "";
    const onPods = maxPerPod * (config.upstreams[targets]?.targets.length || MOST_PODS);
    return ((maxTotal === 0 ? onPods : Math.min(maxTotal, onPods)) * NAMED_PER_LEASE * 1000) / leaseMs;
  });
  const most: Record<Exclude<BudgetName, "values">, number> = {
    ...{ nodes, bytes, proxies: nodes * PROXIES_PER_NODE, pods: MOST_PODS },
    slots: Math.max(Math.ceil(slots.reduce((sum, one) => sum + one, 0)), LEAST_SLOTS),
  };
  return (budget, isCommon) => {
    if (budget === "values") return mostValues(config.rate_limit_values, isCommon);
    return isCommon ? most[budget] * COMMON_FACTOR : most[budget];
  };
}

export interface MetricsOptions {
  /** Without metrics, the counters for status and apps are still kept. */
  enabled: boolean;
  /** All names that decisions are counted under: apps, then descriptor limits, in the order of the configuration. */
  apps: readonly string[];
  /** This many of them have their own label; the others share one. */
  appLabels: number;
  /** Names of `limits`. */
  limits: readonly string[];
}

export function metricsOptions(config: Config): MetricsOptions {
  const apps = [...appLimits(config).map(({ id }) => id), ...descriptorLimits(config).map(({ label }) => label)];
  const { enabled, app_labels: appLabels } = config.metrics;
  return { enabled, appLabels, apps, limits: config.limits.map(({ name }) => name) };
}

export type OtelOptions = CamelCase<Omit<Config["otel"], "endpoint">> & {
  /** Empty: no export. */
  endpoint: string;
};

export function otelOptions({ otel: { endpoint = "", ...otel } }: Config): OtelOptions {
  return { ...camelCase(otel), endpoint };
}

export interface PushOptions {
  destinations: readonly PushDestination[];
  intervalMs: number;
}

/** Without metrics there is nothing to push. */
export function pushOptions({ metrics }: Config): PushOptions {
  const { enabled, push, push_interval_ms: intervalMs } = metrics;
  return { destinations: enabled ? push.map(parsePushUrl) : [], intervalMs };
}

export function overloadLimits({ overload }: Config): OverloadLimits {
  return camelCase(overload);
}

export interface EnvoyServiceOptions {
  access: Pick<AccessOptions, "planeToken" | "allow"> & Partial<Pick<AccessOptions, "planes">>;
  limits: {
    /** Limit for a gRPC message or an HTTP body. */
    maxMessageBytes: number;
    /** Limit for incomplete messages and bodies of all connections together. */
    maxBufferedBytes: number;
    maxConnections: number;
  };
  /** Headers for the client in replies to rate limit requests; undefined: none, not even Retry-After. */
  headers: HeaderOptions | undefined;
}

export function envoyServiceOptions(config: Config): EnvoyServiceOptions {
  const { envoy } = config;
  return {
    access: accessOptions(config),
    limits: {
      maxMessageBytes: envoy.max_message_bytes,
      maxBufferedBytes: envoy.max_buffered_bytes,
      maxConnections: envoy.max_connections,
    },
    headers: envoy.response_headers ? headerOptions(config) : undefined,
  };
}

export function descriptorOptions({ rate_limits, rate_limit_values }: Config): DescriptorOptions {
  return {
    domains: rate_limits.map(({ domain, descriptors }) => ({ domain, descriptors: descriptors.map(descriptorRule) })),
    maxValues: rate_limit_values,
  };
}

export interface DescriptorLimit {
  /** In logs and metrics. */
  label: string;
  rate: string;
  dryRun: boolean;
}

/** The limits of `rate_limits`: at most one per rule. */
export function descriptorLimits(config: Config): DescriptorLimit[] {
  const rules = descriptorRules(config);
  const byLabel = new Map(
    rules.map(({ label, perUnit, unit, unlimited, shadow }) => [
      label,
      { label, rate: unlimited ? "unlimited" : `${perUnit}/${unit}`, dryRun: shadow },
    ]),
  );
  return [...byLabel.values()];
}

/** All descriptor limits, in the order of the configuration. */
export function descriptorRules(config: Config): readonly Rule[] {
  return compileRules(descriptorOptions(config).domains).rules;
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
