/** Connection limits of routes. */
import type { SlotLimits } from "./slots.js";

/** How new connections are decided while the store is unavailable. */
export type OnStoreFailure = "open" | "local" | "closed";

export interface RouteLimits extends SlotLimits {
  onStoreFailure: OnStoreFailure;
  /** See PolicyWithoutStore. */
  maxWithoutStore?: number;
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
    maxPerClient: unless0(before.maxPerClient ?? 0, now.maxPerClient ?? 0),
  };
}
