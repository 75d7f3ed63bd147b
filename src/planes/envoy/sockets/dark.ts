/**
 * Where new connections go while the store, or the service, is gone: counted by this Lua state alone.
 *
 * `open` lets in up to the limit on each pod, divided by the workers of this Envoy and rounded up; `local` this worker's
 * share among all nodes, rounded down. All of them are counted as soon as the store is back.
 */

import type { EnvoySocketRoute } from "../../../config/options/plane-options.js";
import { countHeld } from "./held.js";
import { sockets } from "./state.js";

/** Answers the pod, or nothing when nobody is let in. Of pods with the same load the first one. */
export function placeInTheDark(
  name: string,
  route: EnvoySocketRoute,
  app: string,
  pods: string[],
  now: number,
  liveNodes: number,
): string | undefined {
  if (route.onStoreFailure === "closed") return undefined;
  const held = countHeld(app);
  if (route.maxTotal > 0 && held.total >= share(route, route.maxTotal, liveNodes)) return undefined;
  if (route.maxPerApp > 0 && held.ofApp >= share(route, route.maxPerApp, liveNodes)) return undefined;
  let best = "";
  let least = 0;
  for (const pod of pods) {
    const load = held.ofPod[pod] ?? 0;
    if (best === "" || load < least) {
      best = pod;
      least = load;
    }
  }
  if (best === "" || least >= share(route, route.maxPerPod, liveNodes)) return undefined;
  return isTooFast(name, route, now, liveNodes) ? undefined : best;
}

function sharers(route: EnvoySocketRoute, liveNodes: number): number {
  return Math.max(route.onStoreFailure === "local" ? liveNodes : sockets.workers, 1);
}

function share(route: EnvoySocketRoute, most: number, liveNodes: number): number {
  const part = most / sharers(route, liveNodes);
  return route.onStoreFailure === "local" ? Math.floor(part) : Math.ceil(part);
}

/** The rate slides here as it does in the store. */
function isTooFast(name: string, route: EnvoySocketRoute, now: number, liveNodes: number): boolean {
  const { ratePerSecond, burst } = route;
  if (ratePerSecond === 0) return false;
  const since = now - (burst * 1000 * sharers(route, liveNodes)) / ratePerSecond;
  const recent: number[] = [];
  for (const at of sockets.darkAt[name] ?? []) if (at > since) recent.push(at);
  sockets.darkAt[name] = recent;
  if (recent.length >= burst) return true;
  recent.push(now);
  return false;
}
