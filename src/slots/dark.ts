/**
 * Where new connections go while the store is gone, counted by this process alone.
 *
 * `open` lets in as if nobody else did: up to the limit on each pod, so with N processes a pod may get N times its limit.
 * `local` lets in this process's share, rounded down: what all of them let in together keeps to the limit, besides what
 * was there before, so a pod may get twice its limit. With more processes than slots the share is nothing.
 */
import type { Clock } from "../shared/clock.js";
import type { HeldSlots } from "./held.js";
import type { RouteLimits } from "./limits.js";
import { rateWindowMs } from "./slots.js";

export interface DarkPlacementOptions {
  clock: Clock;
  held: Pick<HeldSlots, "size" | "onPod" | "ofApp">;
  liveProxies(): number;
}

/** Answers the pod, or undefined when nobody is let in. Of pods with the same load the first one is taken. */
export function createDarkPlacement({ clock, held, liveProxies }: DarkPlacementOptions) {
  const admittedAt = new Map<string, number[]>();

  /** The rate slides here as it does in the store. */
  function isTooFast(route: string, { ratePerSecond, burst }: RouteLimits, windowMs: number): boolean {
    if (ratePerSecond === 0) return false;
    const since = clock.now() - windowMs;
    const recent = (admittedAt.get(route) ?? []).filter((at) => at > since);
    admittedAt.set(route, recent);
    return recent.length >= burst;
  }

  return (route: string, limits: RouteLimits, app: string, pods: string[]): string | undefined => {
    if (limits.onStoreFailure === "closed") return undefined;
    const sharers = limits.onStoreFailure === "local" ? Math.max(liveProxies(), 1) : 1;
    const share = (most: number) => Math.floor(most / sharers);
    if (limits.maxTotal > 0 && held.size() >= share(limits.maxTotal)) return undefined;
    if (limits.maxPerApp > 0 && held.ofApp(app) >= share(limits.maxPerApp)) return undefined;
    let best: string | undefined;
    for (const pod of pods) if (best === undefined || held.onPod(pod) < held.onPod(best)) best = pod;
    if (best === undefined || held.onPod(best) >= share(limits.maxPerPod)) return undefined;
    if (isTooFast(route, limits, rateWindowMs(limits) * sharers)) return undefined;
    admittedAt.get(route)?.push(clock.now());
    return best;
  };
}
