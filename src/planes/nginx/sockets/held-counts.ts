/** Number of connections that all workers of this nginx hold, in shared memory: for metrics and for limits without the store. */

import { splitText, storedNumber } from "../../../core/platform.js";
import { ALL_CONNECTIONS, isClientCount, podCountKey, type SlotCounters } from "../../../engine/slots/without-store.js";
import { luaString, luaTable } from "../../lua/library.js";
import { nginx } from "../state.js";
import { type PodLimit, sockets } from "./state.js";

const UNUSED_SECONDS = 60;

function add(key: string, by: number): number {
  const { dict } = sockets;
  dict.safe_add(key, 0);
  return dict.incr(key, by) ?? 0;
}

/**
 * There are as many of these counters as clients: one that is zero expires. If another worker counts the client in the same
 * moment, its connection may not be counted after that time.
 */
function addClient(key: string, by: number): number {
  const { dict } = sockets;
  if (by === 0) return (dict.get(key) as number | undefined) ?? 0;
  const sum = add(key, by);
  if (sum <= 0) dict.expire(key, UNUSED_SECONDS);
  else if (by > 0 && sum === by) dict.expire(key, 0);
  return sum;
}

/** Adds to the number of connections on all routes. Returns the sum. */
export function countHeld(by: number): number {
  return add(ALL_CONNECTIONS, by);
}

/** The counters of a route. A space is not a character of a route's name. */
export function routeCounts(name: string): SlotCounters {
  return {
    add: (key, by) => (isClientCount(key) ? addClient : add)(`${name} ${key}`, by),
    takeRate({ route, burst, windowMs, client, burstPerClient, clientWindowMs }) {
      if (client !== "" && !takeTurn(`${route} ${client}`, burstPerClient, clientWindowMs)) return false;
      return takeTurn(route, burst, windowMs);
    },
  };
}

/** `burst` marks are used in turn, and each exists for the length of the window: the oldest must have expired. */
function takeTurn(name: string, burst: number, windowMs: number): boolean {
  const counter = `turn:${name}`;
  const turn = add(counter, 1);
  // There are as many counters as clients: one expires later than its marks.
  sockets.dict.expire(counter, (windowMs * 2) / 1000);
  const mark = luaString.format("turn:%s %d", name, turn - Math.floor(turn / burst) * burst);
  const [taken] = sockets.dict.safe_add(mark, true, windowMs / 1000);
  if (taken === true) return true;
  add(counter, -1);
  return false;
}

/** Connections of a route to a pod. */
export function heldOnPod({ route, pod }: PodLimit): number {
  return routeCounts(route).add(podCountKey(pod), 0);
}

const PODS = "pods";

/** Once, in the master. Pods that are not configured any more stay on the list while they have connections. */
export function listPods(): void {
  const known: { [name: string]: boolean | undefined } = {};
  for (const { name, pods, upstream, maxPerPod } of nginx.options.connections.routes) {
    for (const pod of pods) {
      known[`${name} ${pod}`] = true;
      sockets.pods.push({ route: name, pod, upstream, limit: maxPerPod });
    }
  }
  const listed = sockets.dict.get(PODS);
  if (listed !== undefined) {
    for (const line of splitText(listed as string, "\n")) {
      const [pod, upstream, limit, route] = splitText(line, " ");
      const former = { route: route ?? "", pod: pod!, upstream: upstream!, limit: storedNumber(limit ?? false, 0) };
      if (known[`${former.route} ${former.pod}`] === undefined && heldOnPod(former) > 0) sockets.pods.push(former);
    }
  }
  const lines: string[] = [];
  for (const { route, pod, upstream, limit } of sockets.pods) {
    lines.push(luaString.format("%s %s %d %s", pod, upstream, limit, route));
  }
  sockets.dict.safe_set(PODS, luaTable.concat(lines, "\n"));
}
