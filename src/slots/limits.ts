/** Connection limits of routes, and the lease that all routes share. */
import type { SlotLimits } from "./slots.js";

/** How new connections are decided while the store is unavailable. */
export type OnStoreFailure = "open" | "local" | "closed";

export interface RouteLimits extends SlotLimits {
  onStoreFailure: OnStoreFailure;
}

/** The part of `routes[].connections` in the configuration that concerns slots. */
export interface ConfiguredConnections {
  max_per_pod: number;
  max_total: number;
  max_per_app: number;
  rate_per_second: number;
  burst?: number | undefined;
  lease_s: number;
  on_store_failure: OnStoreFailure;
}

const DEFAULT_LEASE_MS = 30_000;

export function routeLimits(connections: ConfiguredConnections): RouteLimits {
  const { rate_per_second: ratePerSecond } = connections;
  return {
    maxPerPod: connections.max_per_pod,
    maxTotal: connections.max_total,
    maxPerApp: connections.max_per_app,
    ratePerSecond,
    burst: connections.burst ?? Math.max(Math.ceil(ratePerSecond), 1),
    leaseMs: connections.lease_s * 1000,
    onStoreFailure: connections.on_store_failure,
  };
}

/**
 * The limits by route, all with the shortest lease among them. Leases share one clock, whose largest step depends on the
 * caller's lease: a caller with a longer lease could move it past the end of shorter ones.
 */
export function withOneLease(routes: Iterable<readonly [string, RouteLimits]>): Map<string, RouteLimits> {
  const all = [...routes];
  const leaseMs = Math.min(...all.map(([, limits]) => limits.leaseMs));
  return new Map(all.map(([name, limits]) => [name, { ...limits, leaseMs }]));
}

export function leaseOf(routes: ReadonlyMap<string, RouteLimits>): number {
  for (const { leaseMs } of routes.values()) return leaseMs;
  return DEFAULT_LEASE_MS;
}

/**
 * Limits for a connection that was admitted under `before` and lost its lease under `now`: a limit that was lowered
 * meanwhile closes no connection.
 */
export function roomier(before: SlotLimits, now: SlotLimits): SlotLimits {
  const unless0 = (one: number, other: number) => (one === 0 || other === 0 ? 0 : Math.max(one, other));
  return {
    ...now,
    maxPerPod: Math.max(before.maxPerPod, now.maxPerPod),
    maxTotal: unless0(before.maxTotal, now.maxTotal),
    maxPerApp: unless0(before.maxPerApp, now.maxPerApp),
  };
}

/** The limits of the configured routes by name (host and path), all with one lease. */
export function connectionRoutes(
  routes: readonly { host?: string | undefined; path: string; connections?: ConfiguredConnections | undefined }[],
): Map<string, RouteLimits> {
  const named = routes.flatMap(({ host = "", path, connections }) =>
    connections === undefined ? [] : [[`${host}${path}`, routeLimits(connections)] as const],
  );
  return withOneLease(named);
}
