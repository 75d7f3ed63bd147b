/** Runs the slot engine in a worker: its beats, its calls of the service, and closing connections that lost their slots. */
import { appendHeld } from "../../../engine/slots/held.js";
import { type SlotEvents, slotBeat } from "../../../engine/slots/keeper.js";
import { worker } from "../../lua/http/state.js";
import { countSlots, SLOTS_LOST, SLOTS_RECLAIMED } from "../../lua/sockets/counters.js";
import { callSoon as callRouteSoon, makeCalls as makeRouteCalls } from "../../lua/sockets/keeper-calls.js";
import { podFailed } from "../../lua/sockets/pods.js";
import { freshNowMs, nowMs } from "../clock.js";
import { ngx } from "../ngx.js";
import { nginx } from "../state.js";
import { hangUp } from "./client-socket.js";
import { recordBeat, releaseForDeadWorkers, unregister } from "./registry.js";
import { type NginxSlot, openOn, type SocketRoute, sockets } from "./state.js";

export function slotEvents(route: string): SlotEvents<NginxSlot> {
  return {
    storeLost() {
      ngx.log(ngx.WARN, "tollgate: the store is unavailable: connections are decided without it: ", route);
    },
    storeFound() {
      ngx.log(ngx.WARN, "tollgate: the store is available again: ", route);
    },
    stateLost() {
      ngx.log(ngx.WARN, "tollgate: the store lost its connection slots: all connections are renewed: ", route);
    },
    leasesLost(count) {
      countSlots(SLOTS_LOST, count);
    },
    reclaimed() {
      countSlots(SLOTS_RECLAIMED, 1);
    },
    closed(slot, code) {
      if (isDryRun(slot)) {
        unregister(slot);
        holdSlotless(slot);
        return;
      }
      ngx.log(ngx.WARN, "tollgate: a connection lost its slot and is closed: ", slot.pod, " ", code);
      forgetSlot(slot);
      sockets.closing.push(slot.socket);
    },
    recoveryEnded() {},
  };
}

/** In a timer. */
export function beat(_premature: boolean): void {
  for (const { keeper } of sockets.routes) slotBeat(keeper, freshNowMs());
  recordBeat();
  releaseForDeadWorkers();
  if (sockets.calling > 0) closeSilent();
  // Each route has its own thread: none waits for the calls of another.
  const threads: unknown[] = [];
  for (let i = 1; i < sockets.routes.length; i++) threads.push(ngx.thread.spawn(makeCalls, sockets.routes[i]!));
  makeCalls(sockets.routes[0]!);
  for (const thread of threads) ngx.thread.wait(thread);
}

/** Makes the calls that are due after this turn of the event loop. */
export function callSoon(route: SocketRoute): void {
  callRouteSoon(route, () => makeCalls(route));
}

function makeCalls(this: void, route: SocketRoute): void {
  makeRouteCalls(route);
  const { closing } = sockets;
  sockets.closing = [];
  hangUp(closing);
}

function isDryRun({ app }: NginxSlot): boolean {
  return worker.byId[app]?.limits.dryRun === true;
}

/** The connection is open without a slot, because of a dry run. */
export function holdSlotless(slot: NginxSlot): void {
  slot.slotless = true;
  slot.ended = false;
  appendHeld(slot.on.slotless, slot);
}

/** A connection that the keeper does not hold any more. */
export function forgetSlot(slot: NginxSlot): void {
  unregister(slot);
  if (!slot.answered) sockets.calling = sockets.calling - 1;
}

/** A pod that accepts a connection and does not answer must not occupy the slot for longer than the response timeout. */
function closeSilent(): void {
  const silent: string[] = [];
  for (const route of sockets.routes) {
    for (const slot of openOn(route)) {
      if (!slot.answered && slot.calledAt < nowMs() - nginx.options.connections.responseMs) {
        podFailed(route.options, slot.pod);
        slot.calledAt = nowMs();
        silent.push(slot.socket);
      }
    }
  }
  hangUp(silent);
}
