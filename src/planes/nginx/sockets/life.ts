/** The keeping of connections in the life of a worker: begun with it, and gone on with after a reload, until the last has ended. */

import { luaMath, luaString } from "../../lua/library.js";
import { nowMs } from "../clock.js";
import { flushCounts } from "../http/counters.js";
import { ngx, type SharedDict } from "../ngx.js";
import { worker } from "../state.js";
import { declareSockets, hangUp } from "./descriptor.js";
import { enterLife, leaveLife } from "./registry.js";
import { beatSoon, inheritMemory, keeperBeat } from "./renewal.js";
import { keeper } from "./state.js";

const LONGEST_BEAT_MS = 1000;
const SHORTEST_BEAT_MS = 20;
const GENERATION = "generation";
/** The generation of workers with which all of nginx ends. */
const QUITTING = "quitting";
/** Beats that a worker without connections stays, to free what could not be freed at once. */
const LAST_BEATS = 3;

/** Once, in the master. Routes without connections cost nothing. */
export function initSockets(): void {
  const { connections } = worker.settings;
  keeper.routes = {};
  for (const route of connections.routes) keeper.routes[route.name] = route;
  if (connections.routes.length === 0) return;
  declareSockets();
  keeper.dict = ngx.shared.tollgate_connections as SharedDict;
  keeper.leaseMs = connections.leaseMs;
  keeper.beatMs = Math.min(Math.max(connections.leaseMs / 12, SHORTEST_BEAT_MS), LONGEST_BEAT_MS);
  keeper.lastConnection = 0;
  keeper.memory = "0";
  keeper.misfits = false;
  keeper.away = false;
  keeper.unsettled = false;
  keeper.settling = false;
  keeper.heldBackUntil = 0;
  keeper.busy = false;
  keeper.turn = 0;
  keeper.count = 0;
  keeper.calling = 0;
  keeper.byRequest = {};
  keeper.ended = [];
  keeper.sending = false;
  keeper.freePlaces = [];
  keeper.topPlace = 0;
  keeper.quittingSince = 0;
  listPods();
}

/** With the highest limit where several routes lead to one. */
function listPods(): void {
  keeper.pods = [];
  keeper.podsByName = {};
  keeper.podsChanged = false;
  for (const { pods, upstream, maxPerPod } of worker.settings.connections.routes) {
    for (const { pod } of pods) {
      const known = keeper.podsByName[pod];
      if (known === undefined) {
        const one = { pod, upstream, limit: maxPerPod, held: 0 };
        keeper.pods.push(one);
        keeper.podsByName[pod] = one;
      } else {
        known.upstream = upstream;
        known.limit = Math.max(known.limit, maxPerPod);
      }
    }
  }
}

/** In each worker. */
export function beginSockets(): void {
  if (worker.settings.connections.routes.length === 0) return;
  keeper.proxy = newProxyId();
  keeper.dueAt = nowMs() + keeper.beatMs;
  enterLife();
  inheritMemory();
  // At once: perhaps this worker is there because another died.
  beatSoon();
  ngx.timer.every(keeper.beatMs / 1000, onBeat);
}

/** This worker in this life of it: what one of the same name held before is not its own. */
function newProxyId(): string {
  const name = luaString.sub(worker.name, 1, 80);
  return luaString.format(
    "%s.%d-%.0f%04x",
    name,
    ngx.worker.pid(),
    Math.floor(ngx.now() * 1000),
    luaMath.random(0, 65535),
  );
}

function onBeat(premature: boolean): void {
  if (!premature) {
    keeperBeat();
    return;
  }
  // After a reload the newer workers count; without one, all of nginx ends.
  const generation = worker.dict.get(GENERATION);
  if (generation === worker.generation) worker.dict.safe_set(QUITTING, worker.generation);
  ngx.timer.at(0, keepOn);
}

/** No timer can be set any more but one that fires at once; but who sleeps goes on sleeping. */
function keepOn(_premature: boolean): void {
  let lastBeats = LAST_BEATS;
  while (worker.open > 0 || keeper.count > 0 || (keeper.ended.length > 0 && lastBeats > 0)) {
    if (worker.open === 0 && keeper.count === 0) lastBeats = lastBeats - 1;
    ngx.sleep(keeper.beatMs / 1000);
    flushCounts();
    // In a timer of its own: what a call needs is freed with it, however long this worker stays.
    beatSoon();
    hangUpWhenQuitting();
  }
  leaveLife();
}

/** A reload takes nobody's connection away. The end of nginx does, once its time is up. */
function hangUpWhenQuitting(): void {
  const quitting = worker.dict.get(QUITTING);
  if (quitting === undefined || quitting !== worker.dict.get(GENERATION)) return;
  if (keeper.quittingSince === 0) keeper.quittingSince = nowMs();
  if (nowMs() - keeper.quittingSince < worker.settings.connections.shutdownMs) return;
  let one = keeper.first;
  while (one !== undefined) {
    hangUp(one.descriptor);
    one = one.after;
  }
}
