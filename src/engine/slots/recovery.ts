/**
 * Calls and replies of a slot keeper, and its recovery: renew all connections; release those that have ended, which makes
 * room; then take slots again for connections that lost theirs, on the pods they are connected to. A connection for which
 * there is no slot any more is closed.
 */
import { NOT_CONFIGURED } from "./contact.js";
import { allHeld, type HeldSlot, removeHeld } from "./held.js";
import {
  type KeeperState,
  nextRenewal,
  RECLAIM,
  RELEASE,
  RENEW,
  type Recovery,
  requestRecovery,
  type SlotCall,
  storeFailed,
  storeReplied,
} from "./keeper.js";

/** The call to make now; undefined if there is no call to make before the next beat or reply. */
export function nextSlotCall<H extends HeldSlot<H>>(keeper: KeeperState<H>): SlotCall<H> | undefined {
  if (keeper.recovery === undefined && keeper.recoverNow) beginRecovery(keeper);
  const { recovery } = keeper;
  if (recovery === undefined) return nextRenewal(keeper);
  const call = nextRecoveryCall(keeper, recovery);
  if (call !== undefined) recovery.calls = recovery.calls + 1;
  return call;
}

function beginRecovery<H extends HeldSlot<H>>(keeper: KeeperState<H>): void {
  keeper.recoverNow = false;
  keeper.contact.recoveryNeeded = true;
  keeper.due = 0;
  keeper.heartbeatDue = false;
  keeper.recovery = {
    all: allHeld(keeper.held),
    nextRenewal: 0,
    found: false,
    incarnation: keeper.contact.incarnation,
    lost: [],
    nextReclaim: 0,
    released: false,
    calls: 0,
    failed: false,
    interrupted: false,
  };
}

function nextRecoveryCall<H extends HeldSlot<H>>(
  keeper: KeeperState<H>,
  recovery: Recovery<H>,
): SlotCall<H> | undefined {
  if (recovery.failed) return undefined;
  // One call, even an empty one, shows whether the store answers. The others follow when it does.
  if (!recovery.found) return recovery.calls > 0 ? undefined : recoveryCall(RENEW, renewalBatch(keeper, recovery));
  if (recovery.nextRenewal < recovery.all.length) {
    return recovery.calls < keeper.options.maxRenewals
      ? recoveryCall(RENEW, renewalBatch(keeper, recovery))
      : undefined;
  }
  if (!recovery.released) return recovery.calls > 0 ? undefined : recoveryCall(RELEASE, []);
  while (recovery.nextReclaim < recovery.lost.length && recovery.calls < keeper.options.maxReclaims) {
    const slot = recovery.lost[recovery.nextReclaim]!;
    recovery.nextReclaim = recovery.nextReclaim + 1;
    if (!slot.ended) {
      slot.inStore = true;
      return recoveryCall(RECLAIM, [slot]);
    }
  }
  return undefined;
}

function recoveryCall<H>(kind: string, slots: H[]): SlotCall<H> {
  return { kind, slots, recovers: true, open: true };
}

function renewalBatch<H extends HeldSlot<H>>(keeper: KeeperState<H>, recovery: Recovery<H>): H[] {
  const batch: H[] = [];
  while (recovery.nextRenewal < recovery.all.length && batch.length < keeper.options.batch) {
    const slot = recovery.all[recovery.nextRenewal]!;
    recovery.nextRenewal = recovery.nextRenewal + 1;
    if (!slot.ended) batch.push(slot);
  }
  return batch;
}

/** Returns false where the call is closed already. */
function closeCall<H>(keeper: KeeperState<H>, call: SlotCall<H>): boolean {
  if (!call.open) return false;
  call.open = false;
  if (!call.recovers) keeper.renewing = keeper.renewing - 1;
  else if (keeper.recovery !== undefined) keeper.recovery.calls = keeper.recovery.calls - 1;
  return true;
}

/** The reply to a renewal, with the connections that have no lease any more. */
export function slotsRenewed<H extends HeldSlot<H>>(
  keeper: KeeperState<H>,
  call: SlotCall<H>,
  reply: { incarnation: string; lost: string[] },
  now: number,
): void {
  if (!closeCall(keeper, call)) return;
  storeReplied(keeper, reply.incarnation, now);
  const lost = lostOf(call.slots, reply.lost);
  const { recovery } = keeper;
  if (!call.recovers || recovery === undefined) {
    // In normal operation no lease is lost. Where one is, others may be as well.
    if (lost.length > 0 || keeper.contact.recoveryNeeded) requestRecovery(keeper);
    return;
  }
  for (const slot of lost) recovery.lost.push(slot);
  if (!recovery.found) {
    recovery.found = true;
    recovery.incarnation = keeper.contact.incarnation;
    if (keeper.contact.away) {
      keeper.contact.away = false;
      keeper.options.events.storeFound();
    }
  }
  endRecoveryIfDone(keeper, recovery);
}

function lostOf<H extends HeldSlot<H>>(slots: H[], lost: string[]): H[] {
  const found: H[] = [];
  if (lost.length === 0) return found;
  const isLost: { [connection: string]: boolean | undefined } = {};
  for (const connection of lost) isLost[connection] = true;
  for (const slot of slots) if (isLost[slot.connection] === true && !slot.ended) found.push(slot);
  return found;
}

/** The release queue was sent, as a recovery asked for it. */
export function slotsReleased<H extends HeldSlot<H>>(keeper: KeeperState<H>, call: SlotCall<H>): void {
  const { recovery, contact } = keeper;
  if (!closeCall(keeper, call) || recovery === undefined) return;
  recovery.released = true;
  let leased = 0;
  for (const slot of recovery.lost) {
    if (slot.leased) leased = leased + 1;
    slot.leased = false;
  }
  if (leased > 0) keeper.options.events.leasesLost(leased);
  // If the state was lost during the recovery, the store may not know the connections that were renewed first.
  contact.recoveryNeeded = recovery.interrupted || contact.incarnation !== recovery.incarnation;
  endRecoveryIfDone(keeper, recovery);
}

export function slotReclaimed<H extends HeldSlot<H>>(
  keeper: KeeperState<H>,
  call: SlotCall<H>,
  reply: { allowed: boolean; code: string; incarnation: string },
  now: number,
): void {
  const { recovery } = keeper;
  if (!closeCall(keeper, call) || recovery === undefined) return;
  storeReplied(keeper, reply.incarnation, now);
  const slot = call.slots[0]!;
  if (!slot.ended) {
    if (reply.allowed) {
      slot.leased = true;
      keeper.options.events.reclaimed(slot);
    } else {
      slot.ended = true;
      removeHeld(keeper.held, slot);
      keeper.options.events.closed(slot, reply.code);
    }
  }
  endRecoveryIfDone(keeper, recovery);
}

/** A call of the keeper failed with this outcome. It is repeated by the next recovery. */
export function slotCallFailed<H extends HeldSlot<H>>(
  keeper: KeeperState<H>,
  call: SlotCall<H>,
  outcome: string,
): void {
  if (!closeCall(keeper, call)) return;
  const { recovery } = keeper;
  if (!call.recovers && call.slots.length === 0 && outcome === NOT_CONFIGURED) {
    keeper.notConfigured = true;
    return;
  }
  keeper.failures = keeper.failures + 1;
  keeper.contact.recoveryNeeded = true;
  storeFailed(keeper, outcome);
  if (!call.recovers || recovery === undefined) return;
  recovery.failed = true;
  endRecoveryIfDone(keeper, recovery);
}

function endRecoveryIfDone<H extends HeldSlot<H>>(keeper: KeeperState<H>, recovery: Recovery<H>): void {
  if (recovery.calls > 0) return;
  if (!recovery.failed) {
    if (!recovery.released) return;
    for (let i = recovery.nextReclaim; i < recovery.lost.length; i++) if (!recovery.lost[i]!.ended) return;
    keeper.failures = 0;
  }
  keeper.recovery = undefined;
  keeper.options.events.recoveryEnded();
}
