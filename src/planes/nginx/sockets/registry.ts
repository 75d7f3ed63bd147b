/**
 * The connections of all workers in shared memory: if a worker dies, another one releases its slots at once. Correctness
 * does not depend on it: each worker renews its own slots, and the leases of a dead worker expire.
 */
import { splitText, storedNumber } from "../../../core/platform.js";
import { queueRelease } from "../../../engine/slots/releases.js";
import { countSlot } from "../../../engine/slots/without-store.js";
import { luaString } from "../../lua/library.js";
import { slotHome } from "../../lua/sockets/state.js";
import { nowMs } from "../clock.js";
import { ngx } from "../ngx.js";
import { isAlive } from "./client-socket.js";
import { countHeld, routeCounts } from "./held-counts.js";
import { type NginxSlot, sockets } from "./state.js";

/** Workers, including those from before a reload. */
const MAX_WORKERS = 256;
/** A process id may be reused. A worker without a beat for this long is dead. */
const DEAD_AFTER_MS = 600000;
/** One worker at a time releases the slots of a dead one. */
const TAKEOVER_SECONDS = 10;

// After a reload these keys are shared with workers of an earlier version: do not rename them.
const workerKey = (worker: number) => luaString.format("life:%d", worker);
const beatKey = (worker: number) => luaString.format("beat:%d", worker);
const topKey = (worker: number) => luaString.format("top:%d", worker);
const placeKey = (worker: number, place: number) => luaString.format("at:%d:%d", worker, place);
const takeoverKey = (worker: number) => luaString.format("heir:%d", worker);

/** Registers this worker. */
export function registerWorker(): void {
  const { dict } = sockets;
  const { proxy } = slotHome;
  sockets.worker = -1;
  for (let worker = 0; worker < MAX_WORKERS && sockets.worker < 0; worker++) {
    const [added] = dict.safe_add(workerKey(worker), luaString.format("%d %s", ngx.worker.pid(), proxy));
    if (added === true) sockets.worker = worker;
  }
  if (sockets.worker < 0)
    ngx.log(ngx.WARN, "tollgate: too many workers: if this one dies, its slots expire with their leases");
}

export function recordBeat(): void {
  if (sockets.worker >= 0) sockets.dict.safe_set(beatKey(sockets.worker), nowMs());
}

export function unregisterWorker(): void {
  if (sockets.worker >= 0) deleteWorker(sockets.worker);
  sockets.worker = -1;
}

function deleteWorker(worker: number): void {
  const { dict } = sockets;
  dict.delete(topKey(worker));
  dict.delete(beatKey(worker));
  dict.delete(workerKey(worker));
}

/** `counted`: it is included in the shared counts already. */
export function register(slot: NginxSlot, counted: boolean): void {
  const { dict, freePlaces, worker } = sockets;
  if (!counted) countSlot(slot.on.counts, slot, 1);
  countHeld(1);
  slot.place = 0;
  if (worker < 0) return;
  let place = freePlaces[freePlaces.length - 1];
  if (place === undefined) place = sockets.topPlace + 1;
  const [stored] = dict.safe_set(placeKey(worker, place), slotText(slot));
  if (stored !== true) return;
  slot.place = place;
  if (place <= sockets.topPlace) {
    (freePlaces as (number | undefined)[])[freePlaces.length - 1] = undefined;
    return;
  }
  sockets.topPlace = place;
  dict.safe_set(topKey(worker), place);
}

function slotText({ connection, pod, app, route, client = "" }: NginxSlot): string {
  return `${connection} ${pod} ${app} ${route} ${client}`;
}

export function unregister(slot: NginxSlot): void {
  countSlot(slot.on.counts, slot, -1);
  countHeld(-1);
  if (slot.place === 0) return;
  sockets.dict.delete(placeKey(sockets.worker, slot.place));
  sockets.freePlaces.push(slot.place);
}

/** Releases the slots of workers that died. */
export function releaseForDeadWorkers(): void {
  const { dict } = sockets;
  for (let worker = 0; worker < MAX_WORKERS; worker++) {
    const entry = worker === sockets.worker ? undefined : dict.get(workerKey(worker));
    if (entry !== undefined) {
      const [pid, proxy] = splitText(entry as string, " ");
      if (isGone(worker, storedNumber(pid!, 0))) releaseFor(worker, proxy!);
    }
  }
}

function isGone(worker: number, pid: number): boolean {
  if (!isAlive(pid) || pid === ngx.worker.pid()) return true;
  const beat = sockets.dict.get(beatKey(worker));
  return beat !== undefined && nowMs() - (beat as number) > DEAD_AFTER_MS;
}

function releaseFor(worker: number, proxy: string): void {
  const { dict } = sockets;
  const [mine] = dict.safe_add(takeoverKey(worker), true, TAKEOVER_SECONDS);
  if (mine !== true) return;
  const top = dict.get(topKey(worker));
  let count = 0;
  for (let place = 1; top !== undefined && place <= (top as number); place++) {
    const entry = dict.get(placeKey(worker, place));
    if (entry !== undefined) {
      // Workers of an earlier version write no client.
      const [connection, pod, app, route, client] = splitText(entry as string, " ");
      const ended = { proxy, connection: connection!, pod: pod!, app: app!, client };
      dict.delete(placeKey(worker, place));
      countHeld(-1);
      countSlot(routeCounts(route ?? ""), ended, -1);
      const on = sockets.byName[route ?? ""];
      // Slots on a route that this worker does not have expire with their leases.
      if (on !== undefined) queueRelease(on.keeper.releases, ended);
      count = count + 1;
    }
  }
  deleteWorker(worker);
  dict.delete(takeoverKey(worker));
  if (count > 0) ngx.log(ngx.WARN, "tollgate: a worker died: its slots are released: ", count);
}
