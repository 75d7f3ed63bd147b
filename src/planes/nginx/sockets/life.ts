/** Starts the slot keeper of a worker, and keeps it running after a reload until the last connection has ended. */

import { UNKNOWN_INCARNATION } from "../../../engine/slots/contact.js";
import { newHeldList } from "../../../engine/slots/held.js";
import { beatMs, type KeeperState, newKeeperState } from "../../../engine/slots/keeper.js";
import { releasesLeft } from "../../../engine/slots/releases.js";
import { flushCounts } from "../../lua/http/counters.js";
import { worker } from "../../lua/http/state.js";
import { luaMath, luaString } from "../../lua/library.js";
import { MAX_RECLAIM_CALLS, RENEWALS_PER_CALL } from "../../lua/sockets/keeper-calls.js";
import { inheritIncarnation } from "../../lua/sockets/slot-calls.js";
import { slotHome } from "../../lua/sockets/state.js";
import { nowMs } from "../clock.js";
import { ngx, type SharedDict } from "../ngx.js";
import { nginx } from "../state.js";
import { declareSockets, hangUp } from "./client-socket.js";
import { listPods, routeCounts } from "./held-counts.js";
import { registerWorker, unregisterWorker } from "./registry.js";
import { beat, slotEvents } from "./renewal.js";
import { type NginxSlot, openOn, sockets } from "./state.js";

const GENERATION = "generation";
/** The last generation of workers, when nginx quits. */
const QUITTING = "quitting";
/** Beats that a worker without connections stays alive to send its releases. */
const LAST_BEATS = 3;

/** Once, in the master. Does nothing if no route has connections. */
export function initSockets(): void {
  const { connections } = nginx.options;
  if (connections.routes.length === 0) return;
  declareSockets();
  sockets.dict = ngx.shared.tollgate_connections as SharedDict;
  slotHome.memory = sockets.dict;
  let leaseMs = connections.routes[0]!.leaseMs;
  for (const options of connections.routes) {
    const { name } = options;
    const counts = routeCounts(name);
    const keeper = undefined as unknown as KeeperState<NginxSlot>;
    const slotless = newHeldList<NginxSlot>();
    const route = { options, keeper, slotless, counts, sharedIncarnation: UNKNOWN_INCARNATION, callsSoon: false };
    sockets.routes.push(route);
    sockets.byName[name] = route;
    leaseMs = Math.min(leaseMs, options.leaseMs);
  }
  sockets.beatMs = beatMs(leaseMs);
  listPods();
}

/** In each worker. */
export function beginSockets(): void {
  if (nginx.options.connections.routes.length === 0) return;
  slotHome.proxy = newProxyId();
  for (const route of sockets.routes) {
    const { name, leaseMs } = route.options;
    const options = {
      proxy: slotHome.proxy,
      batch: RENEWALS_PER_CALL,
      fixedBeatMs: sockets.beatMs,
      maxRenewals: 1,
      maxReclaims: MAX_RECLAIM_CALLS,
      events: slotEvents(name),
    };
    route.keeper = newKeeperState(options, leaseMs, nowMs());
    inheritIncarnation(route);
  }
  registerWorker();
  // At once: this worker may replace one that died.
  ngx.timer.at(0, beat);
  ngx.timer.every(sockets.beatMs / 1000, onBeat);
}

/** A new name for each worker process: slots of an earlier process belong to the earlier name. */
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
    beat(false);
    return;
  }
  // If no newer generation of workers exists, this is not a reload: nginx quits.
  const generation = worker.dict.get(GENERATION);
  if (generation === nginx.generation) worker.dict.safe_set(QUITTING, nginx.generation);
  ngx.timer.at(0, keepOn);
}

/** An exiting worker can only set timers that fire at once, but its sleeping threads continue. */
function keepOn(_premature: boolean): void {
  let lastBeats = LAST_BEATS;
  while (nginx.open > 0 || heldHere() > 0 || (releasesHere() > 0 && lastBeats > 0)) {
    if (nginx.open === 0 && heldHere() === 0) lastBeats = lastBeats - 1;
    ngx.sleep(sockets.beatMs / 1000);
    flushCounts();
    // In a timer of its own, whose memory is freed after each beat.
    ngx.timer.at(0, beat);
    closeWhenQuitting();
  }
  unregisterWorker();
}

function heldHere(): number {
  let held = 0;
  for (const { keeper } of sockets.routes) held = held + keeper.held.count;
  return held;
}

function releasesHere(): number {
  let waiting = 0;
  for (const { keeper } of sockets.routes) waiting = waiting + releasesLeft(keeper.releases);
  return waiting;
}

/** A reload closes no connection. When nginx quits, they are closed after the shutdown timeout. */
function closeWhenQuitting(): void {
  const quitting = worker.dict.get(QUITTING);
  if (quitting === undefined || quitting !== worker.dict.get(GENERATION)) return;
  if (sockets.quittingSince === 0) sockets.quittingSince = nowMs();
  if (nowMs() - sockets.quittingSince < nginx.options.connections.shutdownMs) return;
  const open: string[] = [];
  for (const route of sockets.routes) for (const { socket } of openOn(route)) open.push(socket);
  hangUp(open);
}
