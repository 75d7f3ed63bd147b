/** Runs the slot engine in a worker: its beats, its calls of the service, and closing connections that lost their slots. */
import { renewalMs } from "../../../core/slot-lease.js";
import { ANSWERED, FAILED } from "../../../engine/slots/contact.js";
import { allHeld } from "../../../engine/slots/held.js";
import {
  type KeeperState,
  RECLAIM,
  RENEW,
  type SlotCall,
  type SlotEvents,
  slotBeat,
} from "../../../engine/slots/keeper.js";
import {
  nextSlotCall,
  slotCallFailed,
  slotReclaimed,
  slotsReleased,
  slotsRenewed,
} from "../../../engine/slots/recovery.js";
import { pcall } from "../../lua/library.js";
import { freshNowMs, nowMs } from "../clock.js";
import { ngx } from "../ngx.js";
import { worker } from "../state.js";
import { hangUp } from "./client-socket.js";
import { countLost, countReclaimed } from "./counters.js";
import { podFailed } from "./pods.js";
import { recordBeat, releaseForDeadWorkers, unregister } from "./registry.js";
import { sendReleases } from "./releases.js";
import { acquireSlot, renewSlots, shareIncarnation } from "./slot-calls.js";
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
    countLost(count);
  },
  reclaimed() {
    countReclaimed();
  },
  closed(slot, code) {
    ngx.log(ngx.WARN, "tollgate: a connection lost its slot and is closed: ", slot.pod, " ", code);
    forgetSlot(slot);
    sockets.closing.push(slot.client);
  },
  recoveryEnded() {},
};

export function slotKeeperBeat(): void {
  sockets.beatSoon = false;
  slotBeat(sockets.keeper, freshNowMs());
  recordBeat();
  releaseForDeadWorkers();
  if (sockets.calling > 0) closeSilent();
  if (sockets.busy) return;
  sockets.busy = true;
  const [fine, problem] = pcall(makeCalls);
  sockets.busy = false;
  if (!fine) ngx.log(ngx.ERR, "tollgate: slots were not renewed: ", problem);
  hangUp(sockets.closing);
  sockets.closing = [];
  if (!sockets.keeper.contact.away) sendReleases();
}

/** After this turn of the event loop. */
export function beatSoon(): void {
  if (sockets.beatSoon) return;
  const [set] = ngx.timer.at(0, onBeatTimer);
  sockets.beatSoon = set === true;
}

function onBeatTimer(_premature: boolean): void {
  slotKeeperBeat();
}

/** Makes the calls that are due, one after the other. Several reclaims run at a time, each in its own thread. */
function makeCalls(): void {
  const threads: unknown[] = [];
  let call = nextSlotCall(sockets.keeper);
  while (call !== undefined) {
    if (call.kind === RECLAIM && threads.length === 0) {
      for (let i = 1; i < MAX_RECLAIM_CALLS; i++) threads.push(ngx.thread.spawn(makeFurtherCalls, sockets.keeper));
    }
    makeCallGuarded(call);
    call = nextSlotCall(sockets.keeper);
  }
  for (const thread of threads) ngx.thread.wait(thread);
}

function makeFurtherCalls(keeper: KeeperState<NginxSlot>): void {
  let call = nextSlotCall(keeper);
  while (call !== undefined) {
    makeCallGuarded(call);
    call = nextSlotCall(keeper);
  }
}

function makeCallGuarded(call: SlotCall<NginxSlot>): void {
  const [fine, problem] = pcall(makeCall, call);
  shareIncarnation();
  if (fine) return;
  ngx.log(ngx.ERR, "tollgate: slots were not renewed: ", problem);
  slotCallFailed(sockets.keeper, call, FAILED);
}

function makeCall(call: SlotCall<NginxSlot>): void {
  const { keeper } = sockets;
  const { timeoutMs } = worker.options;
  if (call.kind === RENEW) {
    // A failed renewal must be repeated before the leases end.
    const reply = renewSlots(call.slots, Math.min(timeoutMs, renewalMs(keeper.leaseMs)));
    if (reply.outcome === ANSWERED) slotsRenewed(keeper, call, reply, nowMs());
    else slotCallFailed(keeper, call, reply.outcome);
  } else if (call.kind === RECLAIM) {
    const slot = call.slots[0]!;
    const reply = acquireSlot(slot, [slot.pod], true, timeoutMs);
    if (reply.outcome === ANSWERED) slotReclaimed(keeper, call, reply, nowMs());
    else slotCallFailed(keeper, call, reply.outcome);
  } else if (sendReleases()) slotsReleased(keeper, call);
  else slotCallFailed(keeper, call, FAILED);
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
