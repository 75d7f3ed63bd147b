/** Number of connections that all workers of this nginx hold, in shared memory: for metrics and for limits without the store. */

import { splitText, storedNumber } from "../../../core/platform.js";
import { podCountKey, type SlotCounters } from "../../../engine/slots/without-store.js";
import { luaString, luaTable } from "../../lua/library.js";
import { worker } from "../state.js";
import { type PodLimit, sockets } from "./state.js";

export const heldCounts: SlotCounters = {
  add(key, by) {
    const { dict } = sockets;
    dict.safe_add(key, 0);
    return dict.incr(key, by) ?? 0;
  },
  /** `burst` marks are used in turn, and each exists for the length of the window: the oldest must have expired. */
  takeRate({ route, burst, windowMs }) {
    const counter = `turn:${route}`;
    const turn = heldCounts.add(counter, 1);
    const mark = luaString.format("turn:%s %d", route, turn - Math.floor(turn / burst) * burst);
    const [taken] = sockets.dict.safe_add(mark, true, windowMs / 1000);
    if (taken === true) return true;
    heldCounts.add(counter, -1);
    return false;
  },
};

const PODS = "pods";

/** Once, in the master. Pods that are not configured any more stay on the list while they have connections. */
export function listPods(): void {
  const byName: { [pod: string]: PodLimit | undefined } = {};
  for (const { pods, upstream, maxPerPod } of worker.options.connections.routes) {
    for (const pod of pods) addPod(byName, { pod, upstream, limit: maxPerPod });
  }
  const listed = sockets.dict.get(PODS);
  if (listed !== undefined) {
    for (const line of splitText(listed as string, "\n")) {
      const [pod, upstream, limit] = splitText(line, " ");
      if (byName[pod!] === undefined && heldCounts.add(podCountKey(pod!), 0) > 0) {
        addPod(byName, { pod: pod!, upstream: upstream!, limit: storedNumber(limit!, 0) });
      }
    }
  }
  const lines: string[] = [];
  for (const { pod, upstream, limit } of sockets.pods) lines.push(luaString.format("%s %s %d", pod, upstream, limit));
  sockets.dict.safe_set(PODS, luaTable.concat(lines, "\n"));
}

/** A pod of several routes has the highest of their limits. */
function addPod(byName: { [pod: string]: PodLimit | undefined }, added: PodLimit): void {
  const known = byName[added.pod];
  if (known === undefined) {
    byName[added.pod] = added;
    sockets.pods.push(added);
    return;
  }
  known.upstream = added.upstream;
  known.limit = Math.max(known.limit, added.limit);
}
