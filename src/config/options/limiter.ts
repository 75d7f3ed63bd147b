/** Maps the configuration to the options of the limiter, the quota, the coordinator and the identity check. */

import type { AppLimits } from "../../core/app-limits.js";
import { MAX_TOKENS } from "../../core/bucket.js";
import type { CostProfile } from "../../core/cost.js";
import { hostName } from "../../core/host.js";
import { DEFAULT_APP, type IdentityRules } from "../../core/identity.js";
import type { LeaseOptions } from "../../core/lease.js";
import type { HeaderOptions } from "../../core/response-headers.js";
import { type LimitRules, limitOfBucket } from "../../limit-rules/limit-rules.js";
import type { LimiterSettings } from "../../limiter/limiter.js";
import { compileLimits } from "../../limiter/limits/limit-options.js";
import type { CoordinatorOptions } from "../../quota/coordinator.js";
import { type ClusterLimits, defaultShards } from "../../quota/quota.js";
import { storeKindOf } from "../../store/store-url.js";
import { type AppConfig, app as appSection, type Config } from "../schema.js";
import { type CamelCase, camelCase } from "./camel-case.js";
import { costProfile } from "./profiles.js";
import { namedRoute } from "./slots.js";

/** How a gateway identifies the app of a request. */
export interface IdentityOptions
  extends Omit<CamelCase<Config["identity"]>, "apiKeys" | "hosts" | "jwt" | "untrustedHeaders"> {
  /** API key → app. */
  apiKeys: Record<string, string>;
  /** Host name in lower case → app. */
  hosts: Record<string, string>;
  jwt?: TokenOptions | undefined;
  rules: IdentityRules;
}

/** Which JSON Web Tokens are accepted, and what they say. */
export interface TokenOptions extends Omit<CamelCase<TokenSection>, "jwksFile" | "jwksUrl" | "refreshS"> {
  /** A file, or a URL. */
  keys: { file: string } | { url: string };
  refreshMs: number;
}

type TokenSection = NonNullable<Config["identity"]["jwt"]>;

function tokenOptions({ jwks_file, jwks_url, refresh_s, ...jwt }: TokenSection): TokenOptions {
  const keys = jwks_file === undefined ? { url: jwks_url! } : { file: jwks_file };
  return { ...camelCase(jwt), keys, refreshMs: refresh_s * 1000 };
}

export function clusterOptions(config: Config): ClusterLimits & { shards: number } {
  const { id, capacity, rate, node_ttl_ms: nodeTtlMs } = config.cluster;
  return { id, capacity, rate, nodeTtlMs, shards: shardCount(config), planes: Object.keys(config.control.planes) };
}

export function shardCount({ cluster, store }: Pick<Config, "cluster" | "store">): number {
  return cluster.shards ?? defaultShards(storeKindOf(store));
}

export function coordinatorOptions({ cluster }: Config): CoordinatorOptions {
  return {
    reconcileMs: cluster.reconcile_interval_ms,
    cooldownMs: cluster.emergency_cooldown_ms,
    automaticEmergency: cluster.automatic_emergency,
    driftTolerance: cluster.reconcile_tolerance,
  };
}

export function storeOptions({ lease, store_pool_size }: Config) {
  return { deadlineMs: lease.timeout_ms, maxInFlight: store_pool_size };
}

export function leaseOptions({ lease }: Config): LeaseOptions {
  const { timeoutMs, ...options } = camelCase(lease);
  return options;
}

export function limiterOptions(config: Config): Omit<LimiterSettings, "target"> {
  return {
    apps: appLimits(config),
    unknownApps: config.unknown_apps,
    lease: leaseOptions(config),
    timeoutMs: config.lease.timeout_ms,
    failOpenTokens: config.fail_open_tokens,
    limits: limitRules(config),
    maxValues: config.rate_limit_values,
  };
}

/** Computes the result once for each configuration, because there may be many apps and limits. */
function oncePer<K extends object, V>(compute: (key: K) => V): (key: K) => V {
  const known = new WeakMap<K, { result: V }>();
  return (key) => {
    let entry = known.get(key);
    if (entry === undefined) {
      entry = { result: compute(key) };
      known.set(key, entry);
    }
    return entry.result;
  };
}

/** The rules of `limits`; the same object for the same configuration. */
export const limitRules = oncePer(({ limits, routes }: Config): LimitRules => {
  return compileLimits(limits.map(camelCase), routes.map(namedRoute));
});

const rulesByName = oncePer(({ rules }: LimitRules) => new Map(rules.map((rule) => [rule.name, rule])));

/** The limits of a value's bucket; undefined if it belongs to no limit of the configuration. */
export function bucketLimitsOf(config: Config, id: string): AppLimits | undefined {
  const rule = rulesByName(limitRules(config)).get(limitOfBucket(id));
  return rule === undefined ? undefined : { ...rule.limits, id };
}

/**
 * The configured apps, and the app "default" where unknown apps share it, even if it is not configured. The same list for
 * the same configuration.
 */
export const appLimits = oncePer(({ apps, unknown_apps }: Config): AppLimits[] => {
  const profiles = new Map<string, CostProfile>();
  const limits = Object.entries(apps).map(([id, app]) => limitsOf(id, app, profiles));
  if (unknown_apps === "default" && !Object.hasOwn(apps, DEFAULT_APP)) {
    limits.push(limitsOf(DEFAULT_APP, appSection.parse({}), profiles));
  }
  return limits;
});

/** @param profiles by configuration: apps with equal profiles share one */
function limitsOf(id: string, app: AppConfig, profiles: Map<string, CostProfile>): AppLimits {
  const name = JSON.stringify(app.profile);
  const profile = profiles.get(name) ?? costProfile(app.profile);
  profiles.set(name, profile);
  return {
    id,
    guaranteed: app.guaranteed,
    burst: app.burst ?? Math.min(Math.max(Math.ceil(app.guaranteed * 2), 1), MAX_TOKENS),
    priority: app.priority,
    borrow: app.borrow,
    profile,
    onStoreFailure: app.on_store_failure,
    ...(app.fail_open_tokens === undefined ? {} : { failOpenTokens: app.fail_open_tokens }),
    dryRun: app.dry_run,
    unknownLength: app.unknown_length,
  };
}

export function headerOptions({ headers }: Config): HeaderOptions {
  return { xRateLimit: headers.x_ratelimit, ietf: headers.ietf };
}

export function identityOptions({ identity, unknown_apps }: Config): IdentityOptions {
  const { api_keys, hosts, jwt, untrusted_headers, ...others } = identity;
  const keys = Object.entries(api_keys).flatMap(([app, own]) => own.map((key) => [key, app] as const));
  return {
    ...camelCase(others),
    apiKeys: Object.fromEntries(keys),
    hosts: Object.fromEntries(Object.entries(hosts).map(([host, app]) => [hostName(host), app])),
    jwt: jwt && tokenOptions(jwt),
    rules: { refuseUntrustedHeaders: untrusted_headers === "reject", refuseUnknownApps: unknown_apps === "reject" },
  };
}
