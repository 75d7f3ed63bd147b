/** Carries out what the slot engine asks for: renewals, releases, and slots for connections that lost theirs. */
import { renewalMs } from "../../../core/slot-lease.js";
import { FAILED } from "../../../engine/slots/contact.js";
import { RECLAIM, RELEASE, RENEW, type SlotCall } from "../../../engine/slots/keeper.js";
import { nextSlotCall, type SlotCallReply, slotCallDone } from "../../../engine/slots/recovery.js";
import { nowMs, running } from "../host.js";
import { worker } from "../http/state.js";
import { pcall } from "../library.js";
import { acquireSlot, releaseSlots, renewSlots, shareIncarnation } from "./slot-calls.js";
import type { PlaneSlot, SlotRoute } from "./state.js";

export const MAX_RECLAIM_CALLS = 4;
/** Slots in one renewal call. */
export const RENEWALS_PER_CALL = 1000;

/**
 * Makes the calls that are due after this turn of the event loop. Connections that end in it share a call. `work` is
 * `makeCalls` for this route, and what the host does after it.
 */
export function callSoon<S>(route: SlotRoute<S>, work: (this: void) => void): void {
  const { contact, recoverNow, releases } = route.keeper;
  if (route.callsSoon || (!recoverNow && (contact.away || releases.waiting.length === 0))) return;
  // If no timer is available, the next beat makes them.
  route.callsSoon = running.sync.soon(() => {
    route.callsSoon = false;
    work();
  });
}

/** Makes the calls of a route that are due, one after the other. Several reclaims run at a time. Only in a task. */
export function makeCalls<S extends PlaneSlot<S>>(route: SlotRoute<S>): void {
  const { keeper } = route;
  let call = nextSlotCall(keeper);
  while (call !== undefined) {
    if (call.kind === RECLAIM) {
      reclaimTogether(route, call);
    } else makeCall(route, call);
    call = nextSlotCall(keeper);
  }
}

function reclaimTogether<S extends PlaneSlot<S>>(route: SlotRoute<S>, first: SlotCall<S>): void {
  const calls = [first];
  for (let i = 1; i < MAX_RECLAIM_CALLS; i++) {
    const call = nextSlotCall(route.keeper);
    if (call === undefined) break;
    calls.push(call);
  }
  running.sync.runAll((call) => makeCall(route, call), calls);
}

function makeCall<S extends PlaneSlot<S>>(route: SlotRoute<S>, call: SlotCall<S>): void {
  const [fine, reply] = pcall(send<S>, route, call);
  if (!fine) running.host.logError(`tollgate: a slot call failed: ${reply}`);
  slotCallDone(route.keeper, call, fine ? reply : { outcome: FAILED }, nowMs());
  shareIncarnation(route);
}

function send<S extends PlaneSlot<S>>(
  this: void,
  route: SlotRoute<S>,
  { kind, slots, ended }: SlotCall<S>,
): SlotCallReply {
  const { timeoutMs } = worker.options;
  if (kind === RELEASE) return releaseSlots(route, ended, timeoutMs);
  // A failed renewal must be repeated before the leases end.
  if (kind === RENEW) return renewSlots(route, slots, Math.min(timeoutMs, renewalMs(route.keeper.leaseMs)));
  return acquireSlot(slots[0]!, [slots[0]!.pod], true, timeoutMs);
}
