/**
 * Calls and replies of a slot keeper, and its recovery: renew all connections; release those that have ended, which makes
 * room; then take slots again for connections that lost theirs, on the pods they are connected to. A connection for which
 * there is no slot any more is closed.
 */
import { ANSWERED, NOT_CONFIGURED, UNKNOWN_INCARNATION } from "./contact.js";
import { allHeld, type HeldSlot, removeHeld } from "./held.js";
import {
  type KeeperState,
  nextRelease,
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
import { releasesAnswered, releasesLeft } from "./releases.js";

/**
 * The call to make now; undefined if no call is needed before the next event. To be asked after every event: a recovery begins
 * and ends here.
 */
export function nextSlotCall<H extends HeldSlot<H>>(keeper: KeeperState<H>): SlotCall<H> | undefined {
  if (keeper.recovery === undefined && keeper.recoverNow) beginRecovery(keeper);
  const release = nextRelease(keeper);
  if (release !== undefined) return release;
  const { recovery } = keeper;
  if (recovery === undefined) return nextRenewal(keeper);
  const call = recovery.failed ? undefined : nextRecoveryCall(keeper, recovery);
  if (call !== undefined) recovery.calls = recovery.calls + 1;
  else if (recovery.calls === 0 && (recovery.failed || recovery.released)) endRecovery(keeper, recovery);
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

function endRecovery<H>(keeper: KeeperState<H>, recovery: Recovery<H>): void {
  if (!recovery.failed) keeper.failures = 0;
  keeper.recovery = undefined;
  keeper.options.events.recoveryEnded();
}

function nextRecoveryCall<H extends HeldSlot<H>>(
  keeper: KeeperState<H>,
  recovery: Recovery<H>,
): SlotCall<H> | undefined {
  const { maxRenewals, maxReclaims } = keeper.options;
  // One call, even an empty one, shows whether the store answers. The others follow when it does.
  if (!recovery.found) return recovery.calls > 0 ? undefined : recoveryCall(RENEW, renewalBatch(keeper, recovery));
  if (recovery.nextRenewal < recovery.all.length) {
    return recovery.calls < maxRenewals ? recoveryCall(RENEW, renewalBatch(keeper, recovery)) : undefined;
  }
  if (!recovery.released) {
    if (recovery.calls > 0 || releasesLeft(keeper.releases) > 0) return undefined;
    allReleased(keeper, recovery);
  }
  while (recovery.nextReclaim < recovery.lost.length && recovery.calls < maxReclaims) {
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
  return { kind, slots, ended: [], recovers: true };
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

/** All connections are renewed, and those that have ended are released. */
function allReleased<H extends HeldSlot<H>>(keeper: KeeperState<H>, recovery: Recovery<H>): void {
  const { contact } = keeper;
  recovery.released = true;
  let leased = 0;
  for (const slot of recovery.lost) {
    if (slot.leased) leased = leased + 1;
    slot.leased = false;
  }
  if (leased > 0) keeper.options.events.leasesLost(leased);
  // If the state was lost during the recovery, the store may not know the connections that were renewed first.
  contact.recoveryNeeded = recovery.interrupted || contact.incarnation !== recovery.incarnation;
}

/** What a call returned. Only the first field is set if it failed. */
export interface SlotCallReply {
  outcome: string;
  incarnation?: string;
  /** Of RENEW: connections that have no lease any more. */
  lost?: string[];
  /** Of RECLAIM, and of the acquire of a new connection. */
  allowed?: boolean;
  code?: string;
}

/** The result of a call, to be reported exactly once. A failed call is repeated. */
export function slotCallDone<H extends HeldSlot<H>>(
  keeper: KeeperState<H>,
  call: SlotCall<H>,
  reply: SlotCallReply,
  now: number,
): void {
  const { outcome } = reply;
  const { recovery } = keeper;
  if (call.kind === RELEASE) {
    // A service without connections has nothing to release.
    const acknowledged = outcome === ANSWERED || outcome === NOT_CONFIGURED;
    releasesAnswered(keeper.releases, acknowledged);
    if (acknowledged) return;
    keeper.releasesFailed = true;
    callFailed(keeper, call, outcome);
    return;
  }
  if (!call.recovers) keeper.renewing = keeper.renewing - 1;
  else if (recovery !== undefined) recovery.calls = recovery.calls - 1;
  if (outcome === ANSWERED) {
    storeReplied(keeper, reply.incarnation ?? UNKNOWN_INCARNATION, now);
    if (call.kind === RENEW) slotsRenewed(keeper, call, lostOf(call.slots, reply.lost ?? []));
    else if (!call.slots[0]!.ended) slotReclaimed(keeper, call.slots[0]!, reply);
  } else if (!call.recovers && call.slots.length === 0 && outcome === NOT_CONFIGURED) keeper.notConfigured = true;
  else {
    keeper.contact.recoveryNeeded = true;
    callFailed(keeper, call, outcome);
  }
}

function callFailed<H>(keeper: KeeperState<H>, call: SlotCall<H>, outcome: string): void {
  const { recovery } = keeper;
  keeper.failures = keeper.failures + 1;
  storeFailed(keeper, outcome);
  // A recovery waits for its own calls and for all releases.
  if (recovery !== undefined && (call.recovers || call.kind === RELEASE)) recovery.failed = true;
}

function slotsRenewed<H>(keeper: KeeperState<H>, call: SlotCall<H>, lost: H[]): void {
  const { recovery } = keeper;
  if (!call.recovers || recovery === undefined) {
    // In normal operation no lease is lost. Where one is, others may be as well.
    if (lost.length > 0 || keeper.contact.recoveryNeeded) requestRecovery(keeper);
    return;
  }
  for (const slot of lost) recovery.lost.push(slot);
  if (recovery.found) return;
  recovery.found = true;
  recovery.incarnation = keeper.contact.incarnation;
  if (!keeper.contact.away) return;
  keeper.contact.away = false;
  keeper.options.events.storeFound();
}

function lostOf<H extends HeldSlot<H>>(slots: H[], lost: string[]): H[] {
  const found: H[] = [];
  const isLost: { [connection: string]: boolean | undefined } = {};
  for (const connection of lost) isLost[connection] = true;
  if (lost.length > 0) for (const slot of slots) if (isLost[slot.connection] === true && !slot.ended) found.push(slot);
  return found;
}

function slotReclaimed<H extends HeldSlot<H>>(keeper: KeeperState<H>, slot: H, reply: SlotCallReply): void {
  if (reply.allowed === true) {
    slot.leased = true;
    keeper.options.events.reclaimed(slot);
    return;
  }
  slot.ended = true;
  removeHeld(keeper.held, slot);
  keeper.options.events.closed(slot, reply.code ?? "");
}
