/** Maps the configuration to the options of the limiter, the quota, the coordinator and the identity check. */

import type { AppLimits } from "../../core/app-limits.js";
import { MAX_TOKENS } from "../../core/bucket.js";
import type { CostProfile } from "../../core/cost.js";
import { hostName } from "../../core/host.js";
import { DEFAULT_APP, type IdentityRules } from "../../core/identity.js";
import type { LeaseOptions } from "../../core/lease.js";
import type { HeaderOptions } from "../../core/response-headers.js";
import { type LimitRule, type LimitRules, limitOfBucket } from "../../limit-rules/limit-rules.js";
import type { LimiterSettings } from "../../limiter/limiter.js";
import { compileLimits } from "../../limiter/limits/limit-options.js";
import type { CoordinatorOptions } from "../../quota/coordinator.js";
import { type ClusterLimits, defaultShards } from "../../quota/quota.js";
import { storeKindOf } from "../../store/store-url.js";
import { type AppConfig, app as appSection, type Config } from "../schema.js";
import { camelCase } from "./camel-case.js";
import { costProfile } from "./profiles.js";
import { routeName } from "./slots.js";

/** How a gateway identifies the app of a request. */
export interface IdentityOptions {
  appHeader: string;
  userHeader: string;
  apiKeyHeader: string;
  trustedHops: readonly string[];
  /** Backends get app and user. */
  forwardIdentity: boolean;
  /** API key → app. */
  apiKeys: Record<string, string>;
  /** Host name in lower case → app. */
  hosts: Record<string, string>;
  /** The segment of the path that names the app, from 1 on; 0: none. */
  pathSegment: number;
  jwt?: TokenOptions | undefined;
  rules: IdentityRules;
}

/** Which JSON Web Tokens are accepted, and what they say. */
export interface TokenOptions {
  /** A file, or a URL. */
  keys: { file: string } | { url: string };
  refreshMs: number;
  issuer?: string | undefined;
  /** Empty: any. */
  audience: string[];
  algorithms: string[];
  /** Undefined: tokens do not name the app. */
  appClaim?: string | undefined;
  userClaim: string;
  clockToleranceS: number;
  /** Requests without a token are refused. */
  required: boolean;
}

function tokenOptions({
  jwks_file,
  jwks_url,
  refresh_s,
  ...jwt
}: NonNullable<Config["identity"]["jwt"]>): TokenOptions {
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

const knownRules = new WeakMap<Config, LimitRules>();

/** The rules of `limits`; the same object for the same configuration. */
export function limitRules(config: Config): LimitRules {
  const before = knownRules.get(config);
  if (before !== undefined) return before;
  const routes = config.routes.map((route) => ({
    name: routeName(route),
    host: route.host ?? "",
    path: route.path,
    limits: route.limits,
  }));
  const rules = compileLimits(
    config.limits.map((limit) => camelCase(limit)),
    routes,
  );
  knownRules.set(config, rules);
  return rules;
}

const rulesByName = new WeakMap<LimitRules, Map<string, LimitRule>>();

/** The limits of a value's bucket; undefined if it belongs to no limit of the configuration. */
export function bucketLimitsOf(config: Config, id: string): AppLimits | undefined {
  const name = limitOfBucket(id);
  if (name === "") return undefined;
  const rules = limitRules(config);
  let byName = rulesByName.get(rules);
  if (byName === undefined) {
    byName = new Map(rules.rules.map((rule) => [rule.name, rule]));
    rulesByName.set(rules, byName);
  }
  const rule = byName.get(name);
  return rule === undefined ? undefined : { ...rule.limits, id };
}

const known = new WeakMap<Config, AppLimits[]>();

/**
 * The configured apps, and the app "default" where unknown apps share it, even if it is not configured. The same list for
 * the same configuration: there may be many apps.
 */
export function appLimits(config: Config): AppLimits[] {
  const before = known.get(config);
  if (before !== undefined) return before;
  const { apps, unknown_apps } = config;
  const profiles = new Map<string, CostProfile>();
  const limits = Object.entries(apps).map(([id, app]) => limitsOf(id, app, profiles));
  if (unknown_apps === "default" && !Object.hasOwn(apps, DEFAULT_APP)) {
    limits.push(limitsOf(DEFAULT_APP, appSection.parse({}), profiles));
  }
  known.set(config, limits);
  return limits;
}

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
  const keys = Object.entries(identity.api_keys).flatMap(([app, own]) => own.map((key) => [key, app] as const));
  return {
    appHeader: identity.app_header,
    userHeader: identity.user_header,
    apiKeyHeader: identity.api_key_header,
    trustedHops: identity.trusted_hops,
    forwardIdentity: identity.forward_identity,
    apiKeys: Object.fromEntries(keys),
    hosts: Object.fromEntries(Object.entries(identity.hosts).map(([host, app]) => [hostName(host), app])),
    pathSegment: identity.path_segment,
    jwt: identity.jwt && tokenOptions(identity.jwt),
    rules: {
      refuseUntrustedHeaders: identity.untrusted_headers === "reject",
      refuseUnknownApps: unknown_apps === "reject",
    },
  };
}
