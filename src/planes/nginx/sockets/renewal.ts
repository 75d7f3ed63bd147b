/** Runs the slot engine in a worker: its beats, its calls of the service, and closing connections that lost their slots. */
import { renewalMs } from "../../../core/slot-lease.js";
import { FAILED } from "../../../engine/slots/contact.js";
import { appendHeld } from "../../../engine/slots/held.js";
import { RECLAIM, RELEASE, RENEW, type SlotCall, type SlotEvents, slotBeat } from "../../../engine/slots/keeper.js";
import { nextSlotCall, type SlotCallReply, slotCallDone } from "../../../engine/slots/recovery.js";
import { pcall } from "../../lua/library.js";
import { freshNowMs, nowMs } from "../clock.js";
import { ngx } from "../ngx.js";
import { worker } from "../state.js";
import { hangUp } from "./client-socket.js";
import { countSlots, SLOTS_LOST, SLOTS_RECLAIMED } from "./counters.js";
import { podFailed } from "./pods.js";
import { recordBeat, releaseForDeadWorkers, unregister } from "./registry.js";
import { acquireSlot, releaseSlots, renewSlots, shareIncarnation } from "./slot-calls.js";
import { type NginxSlot, openOn, type SocketRoute, sockets } from "./state.js";

export const MAX_RECLAIM_CALLS = 4;

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
      sockets.closing.push(slot.client);
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

/** Makes the calls that are due after this turn of the event loop. Connections that end in it share a call. */
export function callSoon(route: SocketRoute): void {
  const { contact, recoverNow, releases } = route.keeper;
  if (route.callsSoon || (!recoverNow && (contact.away || releases.waiting.length === 0))) return;
  // If no timer is available, the next beat makes them.
  const [set] = ngx.timer.at(0, () => {
    route.callsSoon = false;
    makeCalls(route);
  });
  route.callsSoon = set === true;
}

/** Makes the calls of a route that are due, one after the other. Several reclaims run at a time, each in its own thread. */
function makeCalls(this: void, route: SocketRoute): void {
  const { keeper } = route;
  const threads: unknown[] = [];
  let call = nextSlotCall(keeper);
  while (call !== undefined) {
    if (call.kind === RECLAIM && threads.length === 0) {
      for (let i = 1; i < MAX_RECLAIM_CALLS; i++) threads.push(ngx.thread.spawn(makeFurtherCalls, route));
    }
    makeCall(route, call);
    call = nextSlotCall(keeper);
  }
  for (const thread of threads) ngx.thread.wait(thread);
  const { closing } = sockets;
  sockets.closing = [];
  hangUp(closing);
}

function makeFurtherCalls(route: SocketRoute): void {
  const { keeper } = route;
  for (let call = nextSlotCall(keeper); call !== undefined; call = nextSlotCall(keeper)) makeCall(route, call);
}

function makeCall(route: SocketRoute, call: SlotCall<NginxSlot>): void {
  const [fine, reply] = pcall(send, route, call);
  if (!fine) ngx.log(ngx.ERR, "tollgate: a slot call failed: ", reply);
  slotCallDone(route.keeper, call, fine ? reply : { outcome: FAILED }, nowMs());
  shareIncarnation(route);
}

function send(route: SocketRoute, { kind, slots, ended }: SlotCall<NginxSlot>): SlotCallReply {
  const { timeoutMs } = worker.options;
  if (kind === RELEASE) return releaseSlots(route, ended, timeoutMs);
  // A failed renewal must be repeated before the leases end.
  if (kind === RENEW) return renewSlots(route, slots, Math.min(timeoutMs, renewalMs(route.keeper.leaseMs)));
  return acquireSlot(slots[0]!, [slots[0]!.pod], true, timeoutMs);
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
      if (!slot.answered && slot.calledAt < nowMs() - worker.options.connections.responseMs) {
        podFailed(route.options, slot.pod);
        slot.calledAt = nowMs();
        silent.push(slot.client);
      }
    }
  }
  hangUp(silent);
}
