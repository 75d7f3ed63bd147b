/** A configuration in the words of the rooms that it configures. */

import { MAX_TOKENS } from "../core/bucket.js";
import type { CostProfile } from "../core/cost.js";
import { DEFAULT_APP, type IdentityRules } from "../core/identity.js";
import type { LeaseOptions } from "../core/lease.js";
import type { AppLimits } from "../core/limits.js";
import type { ClusterPolicy } from "../quota/policy.js";
import { profiles } from "./profiles.js";
import { type AppConfig, app as appSection, type Config } from "./schema.js";

/** How a gateway tells who asks. */
export interface IdentitySettings {
  appHeader: string;
  userHeader: string;
  apiKeyHeader: string;
  trustedHops: readonly string[];
  /** Secret → app. */
  apiKeys: Record<string, string>;
  rules: IdentityRules;
}

export function clusterPolicy({ cluster }: Config): ClusterPolicy {
  return { id: cluster.id, capacity: cluster.capacity, rate: cluster.rate, nodeTtlMs: cluster.node_ttl_ms };
}

export function leasePolicy({ lease }: Config): LeaseOptions {
  return {
    reserve: lease.reserve,
    refillThreshold: lease.refill_threshold,
    syncIntervalMs: lease.sync_interval_ms,
    batchThreshold: lease.batch_threshold,
    idleMs: lease.idle_ms,
  };
}

/** The configured apps; where unknown ones share the default app, there is one even if nobody configured it. */
export function limitedApps({ apps, unknown_apps }: Config): AppLimits[] {
  const listed = Object.entries(apps).map(([id, app]) => limitedApp(id, app));
  if (unknown_apps === "default" && !Object.hasOwn(apps, DEFAULT_APP)) {
    listed.push(limitedApp(DEFAULT_APP, appSection.parse({})));
  }
  return listed;
}

function limitedApp(id: string, app: AppConfig): AppLimits {
  const burst = app.burst ?? Math.min(Math.max(Math.ceil(app.guaranteed * 2), 1), MAX_TOKENS);
  return {
    ...{ id, guaranteed: app.guaranteed, burst, priority: app.priority, borrow: app.borrow },
    profile: costProfile(app.profile),
    onStoreFailure: app.on_store_failure,
    dryRun: app.dry_run,
  };
}

function costProfile({ based_on, base, quantum, bandwidth, max_cost }: AppConfig["profile"]): CostProfile {
  const named = profiles.get(based_on)!;
  const changed = Object.entries(base).filter(([, cost]) => cost !== undefined);
  return {
    base: { ...named.base, ...Object.fromEntries(changed) },
    quantum: quantum ?? named.quantum,
    bandwidth: bandwidth ?? named.bandwidth,
    maxCost: max_cost ?? named.maxCost,
  };
}

export function identitySettings({ identity, unknown_apps }: Config): IdentitySettings {
  const keys = Object.entries(identity.api_keys).flatMap(([app, own]) => own.map((key) => [key, app] as const));
  return {
    appHeader: identity.app_header,
    userHeader: identity.user_header,
    apiKeyHeader: identity.api_key_header,
    trustedHops: identity.trusted_hops,
    apiKeys: Object.fromEntries(keys),
    rules: {
      refuseUntrustedHeaders: identity.untrusted_headers === "reject",
      refuseUnknownApps: unknown_apps === "reject",
    },
  };
}

export { configVersion } from "./version.js";
