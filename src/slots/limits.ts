/** Connection limits of routes, and the lease that all routes share. */
import type { SlotLimits } from "./slots.js";

/** How new connections are decided while the store is unavailable. */
export type OnStoreFailure = "open" | "local" | "closed";

export interface RouteLimits extends SlotLimits {
  onStoreFailure: OnStoreFailure;
}

const DEFAULT_LEASE_MS = 30_000;

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
