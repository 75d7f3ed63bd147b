/** Runs the slot engine in a worker: its beats, its calls of the service, and closing connections that lost their slots. */
import { renewalMs } from "../../../core/slot-lease.js";
import { FAILED } from "../../../engine/slots/contact.js";
import { allHeld } from "../../../engine/slots/held.js";
import {
  type KeeperState,
  RECLAIM,
  RELEASE,
  RENEW,
  type SlotCall,
  type SlotEvents,
  slotBeat,
} from "../../../engine/slots/keeper.js";
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
import { type NginxSlot, sockets } from "./state.js";

export const MAX_RECLAIM_CALLS = 4;

export const slotEvents: SlotEvents<NginxSlot> = {
  storeLost() {
    ngx.log(ngx.WARN, "tollgate: the store is unavailable: connections are decided without it");
  },
  storeFound() {
    ngx.log(ngx.WARN, "tollgate: the store is available again");
  },
  stateLost() {
    ngx.log(ngx.WARN, "tollgate: the store lost its connection slots: all connections are renewed");
  },
  leasesLost(count) {
    countSlots(SLOTS_LOST, count);
  },
  reclaimed() {
    countSlots(SLOTS_RECLAIMED, 1);
  },
  closed(slot, code) {
    ngx.log(ngx.WARN, "tollgate: a connection lost its slot and is closed: ", slot.pod, " ", code);
    forgetSlot(slot);
    sockets.closing.push(slot.client);
  },
  recoveryEnded() {},
};

/** In a timer. */
export function beat(_premature: boolean): void {
  slotBeat(sockets.keeper, freshNowMs());
  recordBeat();
  releaseForDeadWorkers();
  if (sockets.calling > 0) closeSilent();
  makeCalls();
}

/** Makes the calls that are due after this turn of the event loop. Connections that end in it share a call. */
export function callSoon(): void {
  const { contact, recoverNow, releases } = sockets.keeper;
  if (sockets.callsSoon || (!recoverNow && (contact.away || releases.waiting.length === 0))) return;
  // If no timer is available, the next beat makes them.
  const [set] = ngx.timer.at(0, onCallTimer);
  sockets.callsSoon = set === true;
}

function onCallTimer(_premature: boolean): void {
  sockets.callsSoon = false;
  makeCalls();
}

/** Makes the calls that are due, one after the other. Several reclaims run at a time, each in its own thread. */
function makeCalls(): void {
  const threads: unknown[] = [];
  let call = nextSlotCall(sockets.keeper);
  while (call !== undefined) {
    if (call.kind === RECLAIM && threads.length === 0) {
      for (let i = 1; i < MAX_RECLAIM_CALLS; i++) threads.push(ngx.thread.spawn(makeFurtherCalls, sockets.keeper));
    }
    makeCall(call);
    call = nextSlotCall(sockets.keeper);
  }
  for (const thread of threads) ngx.thread.wait(thread);
  hangUp(sockets.closing);
  sockets.closing = [];
}

function makeFurtherCalls(keeper: KeeperState<NginxSlot>): void {
  for (let call = nextSlotCall(keeper); call !== undefined; call = nextSlotCall(keeper)) makeCall(call);
}

function makeCall(call: SlotCall<NginxSlot>): void {
  const [fine, reply] = pcall(send, call);
  if (!fine) ngx.log(ngx.ERR, "tollgate: a slot call failed: ", reply);
  slotCallDone(sockets.keeper, call, fine ? reply : { outcome: FAILED }, nowMs());
  shareIncarnation();
}

function send({ kind, slots, ended }: SlotCall<NginxSlot>): SlotCallReply {
  const { timeoutMs } = worker.options;
  if (kind === RELEASE) return releaseSlots(ended, timeoutMs);
  // A failed renewal must be repeated before the leases end.
  if (kind === RENEW) return renewSlots(slots, Math.min(timeoutMs, renewalMs(sockets.keeper.leaseMs)));
  return acquireSlot(slots[0]!, [slots[0]!.pod], true, timeoutMs);
}

/** A connection that the keeper does not hold any more. */
export function forgetSlot(slot: NginxSlot): void {
  unregister(slot);
  if (!slot.answered) sockets.calling = sockets.calling - 1;
}

/** A pod that accepts a connection and does not answer must not occupy the slot for longer than the response timeout. */
function closeSilent(): void {
  const silent: string[] = [];
  for (const slot of allHeld(sockets.keeper.held)) {
    if (!slot.answered && slot.calledAt < nowMs() - worker.options.connections.responseMs) {
      const route = sockets.routes[slot.route];
      if (route !== undefined) podFailed(route, slot.pod);
      slot.calledAt = nowMs();
      silent.push(slot.client);
    }
  }
  hangUp(silent);
}
