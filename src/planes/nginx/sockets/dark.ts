/**
 * Where new connections go while the store is gone, counted by all workers of this nginx together.
 *
 * `open` lets in as if nobody else did: up to the limit on each pod, so with N nginx a pod may get N times its limit.
 * `local` lets in this nginx's share, rounded down. Each step is atomic, and what was taken in vain goes back: of several
 * that ask at the same moment for the last place, all may be refused, but never two let in.
 */

import type { NginxSocketRoute } from "../../../config/options/plane-options.js";
import { luaString } from "../../lua/library.js";
import { worker } from "../state.js";
import { addToCount, appCountKey, podCountKey, TOTAL_COUNT_KEY } from "./registry.js";
import { keeper } from "./state.js";

const UNLIMITED = 9007199254740991;

function takeCount(key: string, most: number): boolean {
  if (addToCount(key, 1) <= most) return true;
  addToCount(key, -1);
  return false;
}

/** Answers the pod, whose counts are then taken; or nothing when nobody is let in. Of pods with the same load the first one. */
export function placeInTheDark(route: NginxSocketRoute, app: string, pods: string[]): string | undefined {
  if (route.onStoreFailure === "closed") return undefined;
  const sharers = route.onStoreFailure === "local" ? Math.max(worker.node.liveNodes, 1) : 1;
  const pod = leastLoaded(pods);
  if (!takeCount(podCountKey(pod), Math.floor(route.maxPerPod / sharers))) return undefined;
  const most = route.maxPerApp === 0 ? UNLIMITED : Math.floor(route.maxPerApp / sharers);
  if (takeCount(appCountKey(app), most)) {
    const total = route.maxTotal === 0 ? UNLIMITED : Math.floor(route.maxTotal / sharers);
    if (takeCount(TOTAL_COUNT_KEY, total)) {
      if (takeTurn(route, sharers)) return pod;
      addToCount(TOTAL_COUNT_KEY, -1);
    }
    addToCount(appCountKey(app), -1);
  }
  addToCount(podCountKey(pod), -1);
  return undefined;
}

function leastLoaded(pods: string[]): string {
  let best = pods[0]!;
  let least = addToCount(podCountKey(best), 0);
  for (const pod of pods) {
    const load = addToCount(podCountKey(pod), 0);
    if (load < least) {
      best = pod;
      least = load;
    }
  }
  return best;
}

/**
 * The rate slides here as it does in the store: `burst` marks go round, each is there for as long as the window is, and
 * whose turn it is takes the oldest.
 */
function takeTurn(route: NginxSocketRoute, sharers: number): boolean {
  const { name, ratePerSecond, burst } = route;
  if (ratePerSecond === 0) return true;
  const counter = `turn:${name}`;
  const turn = addToCount(counter, 1);
  const mark = luaString.format("turn:%s %d", name, turn - Math.floor(turn / burst) * burst);
  const [taken] = keeper.dict.safe_add(mark, true, (burst * sharers) / ratePerSecond);
  if (taken === true) return true;
  addToCount(counter, -1);
  return false;
}
