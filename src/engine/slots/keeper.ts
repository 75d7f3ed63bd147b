/**
 * Keeps the leases of a process's connections on one route. Sans-I/O: the host reports time, replies and failures, asks for the next
 * call, and carries it out.
 *
 * In normal operation each connection is renewed once in `renewalMs`, spread evenly over beats. When the store was away or
 * lost its state, or when the process was paused for so long that leases may have expired, the keeper recovers first:
 * see recovery.ts. No new connection is admitted until then.
 */
import { renewalMs } from "../../core/slot-lease.js";
import {
  ALL_RECOVERED_MS,
  newStoreContact,
  noteIncarnation,
  type StoreContact,
  UNAVAILABLE,
  UNKNOWN_INCARNATION,
} from "./contact.js";
import { type HeldList, type HeldSlot, newHeldList, removeHeld, rotateHeld } from "./held.js";
import { type EndedSlot, newReleaseQueue, queueRelease, type ReleaseQueue, takeReleases } from "./releases.js";

/** Renew the slots of the call. Without any, the call shows that the process lives and reports the incarnation. */
export const RENEW = "renew";
/** Release the ended connections of the call, all of one proxy. */
export const RELEASE = "release";
/** Take a slot again for a connection that lost its lease, on the same pod. */
export const RECLAIM = "reclaim";

export interface SlotCall<H> {
  kind: string;
  /** Of RENEW and RECLAIM. */
  slots: H[];
  /** Of RELEASE. */
  ended: EndedSlot[];
  /** Part of a recovery. */
  recovers: boolean;
}

/** Reported to the host, which must not call the keeper from these methods. */
export interface SlotEvents<H> {
  /** The store stopped answering. */
  storeLost(): void;
  storeFound(): void;
  /** The store lost its slots. */
  stateLost(): void;
  /** This many connections had no lease any more. */
  leasesLost(count: number): void;
  /** A connection has a lease again, or its first one after it was admitted without the store. */
  reclaimed(slot: H): void;
  /** There was no slot for a connection that had lost its lease. It is not held any more, and the host must close it. */
  closed(slot: H, code: string): void;
  recoveryEnded(): void;
}

export interface KeeperOptions<H> {
  /** This process since its last start. */
  proxy: string;
  /** Slots in one renewal call. */
  batch: number;
  /** The host beats at this interval. 0: it beats when `slotBeat` says, which splits large beats into shorter ones. */
  fixedBeatMs: number;
  /** Renewal calls at a time. */
  maxRenewals: number;
  /** Reclaim calls at a time. */
  maxReclaims: number;
  events: SlotEvents<H>;
}

/** A running recovery. */
export interface Recovery<H> {
  all: H[];
  /** Position in `all` of the next slot to renew. */
  nextRenewal: number;
  /** The first call, which shows whether the store answers, was answered. */
  found: boolean;
  /** Of the first reply. */
  incarnation: string;
  /** Renewed without success. */
  lost: H[];
  nextReclaim: number;
  released: boolean;
  /** Calls that are not answered. */
  calls: number;
  failed: boolean;
  /** The process was paused meanwhile: leases that were renewed before may have expired. */
  interrupted: boolean;
}

export interface KeeperState<H> {
  options: KeeperOptions<H>;
  leaseMs: number;
  /** Without slots, a call is made at this interval; 0: none. */
  heartbeatMs: number;
  /** When such a call is due. */
  heartbeatAt: number;
  contact: StoreContact;
  held: HeldList<H>;
  releases: ReleaseQueue;
  /** A release failed: it is repeated after the next beat. */
  releasesFailed: boolean;
  /** When the next beat is due. If it is much later, the process was paused. */
  beatAt: number;
  /** Slots to be renewed in this beat. */
  due: number;
  /** A call is to be made in this beat even if no slot is due. */
  heartbeatDue: boolean;
  /** The service has no connections in its configuration: it is not asked for the incarnation again. */
  notConfigured: boolean;
  /** Renewal calls that are not answered, besides those of a recovery. */
  renewing: number;
  /** Failed calls since the last recovery that succeeded. */
  failures: number;
  /** A recovery may begin. */
  recoverNow: boolean;
  recovery: Recovery<H> | undefined;
}

const LONGEST_BEAT_MS = 1000;
const SHORTEST_BEAT_MS = 20;
const BEATS_PER_LEASE = 12;
const FIRST_RETRY_MS = 50;

export function newKeeperState<H extends HeldSlot<H>>(
  options: KeeperOptions<H>,
  leaseMs: number,
  now: number,
): KeeperState<H> {
  return {
    options,
    leaseMs,
    heartbeatMs: 0,
    heartbeatAt: 0,
    contact: newStoreContact(ALL_RECOVERED_MS),
    held: newHeldList(),
    releases: newReleaseQueue(),
    releasesFailed: false,
    beatAt: now,
    due: 0,
    heartbeatDue: false,
    notConfigured: false,
    renewing: 0,
    failures: 0,
    recoverNow: false,
    recovery: undefined,
  };
}

export function beatMs(leaseMs: number): number {
  return Math.min(Math.max(leaseMs / BEATS_PER_LEASE, SHORTEST_BEAT_MS), LONGEST_BEAT_MS);
}

/** The beat is so late that leases may have expired: the process was paused. */
export function wasPaused<H>(keeper: KeeperState<H>, now: number): boolean {
  return now - keeper.beatAt > renewalMs(keeper.leaseMs);
}

/** Schedules what is due now. Returns the time until the next beat. */
export function slotBeat<H extends HeldSlot<H>>(keeper: KeeperState<H>, now: number): number {
  const { contact, held, leaseMs, options } = keeper;
  let interval = options.fixedBeatMs > 0 ? options.fixedBeatMs : beatMs(leaseMs);
  if (wasPaused(keeper, now)) {
    contact.recoveryNeeded = true;
    if (keeper.recovery !== undefined) keeper.recovery.interrupted = true;
  }
  if (contact.away || contact.recoveryNeeded) keeper.recoverNow = keeper.recovery === undefined;
  else if (keeper.recovery === undefined) {
    // A round takes `renewalMs` less one beat, which is left for slow calls.
    const roundMs = renewalMs(leaseMs) - interval;
    keeper.due = roundMs > 0 ? Math.min(Math.ceil((held.count * interval) / roundMs), held.count) : held.count;
    if (options.fixedBeatMs === 0 && keeper.due > options.batch) {
      interval = (interval * options.batch) / keeper.due;
      keeper.due = options.batch;
    }
    // The store reports the loss of its slots only to a process that has an incarnation.
    const asksIncarnation = contact.incarnation === UNKNOWN_INCARNATION && !keeper.notConfigured;
    const isBeating = keeper.heartbeatMs > 0 && now >= keeper.heartbeatAt;
    if (isBeating) keeper.heartbeatAt = now + keeper.heartbeatMs;
    keeper.heartbeatDue = isBeating || asksIncarnation;
  }
  keeper.releasesFailed = false;
  keeper.beatAt = now + interval;
  return interval;
}

/** Pause before the next attempt to reach the store. `chance` is from 0 to 1, so processes do not retry simultaneously. */
export function retryMs<H>(keeper: KeeperState<H>, chance: number): number {
  let pause = FIRST_RETRY_MS;
  for (let i = 1; i < keeper.failures && pause < LONGEST_BEAT_MS; i++) pause = pause * 2;
  return Math.min(pause, beatMs(keeper.leaseMs)) * (0.5 + chance / 2);
}

/** A connection has ended. Returns false for a repeated call. */
export function endSlot<H extends HeldSlot<H>>(keeper: KeeperState<H>, slot: H): boolean {
  if (slot.ended) return false;
  const { connection, pod, app, client } = slot;
  slot.ended = true;
  removeHeld(keeper.held, slot);
  if (slot.inStore) queueRelease(keeper.releases, { proxy: keeper.options.proxy, connection, pod, app, client });
  return true;
}

/** All connections must be renewed, at once if possible. */
export function requestRecovery<H>(keeper: KeeperState<H>): void {
  const { contact } = keeper;
  contact.recoveryNeeded = true;
  if (!contact.away && keeper.recovery === undefined) keeper.recoverNow = true;
}

/** A call failed with this outcome; also for calls that the keeper did not make. */
export function storeFailed<H>(keeper: KeeperState<H>, outcome: string): void {
  const { contact } = keeper;
  if (outcome !== UNAVAILABLE || contact.away) return;
  contact.away = true;
  contact.recoveryNeeded = true;
  if (keeper.recovery !== undefined) keeper.recovery.failed = true;
  keeper.options.events.storeLost();
}

/** Takes the incarnation of any reply. */
export function storeReplied<H>(keeper: KeeperState<H>, incarnation: string, now: number): void {
  if (noteIncarnation(keeper.contact, incarnation, now)) keeper.options.events.stateLost();
}

/** The renewal that is due; undefined if no renewal is due or too many are running. */
export function nextRenewal<H extends HeldSlot<H>>(keeper: KeeperState<H>): SlotCall<H> | undefined {
  const { held, options } = keeper;
  if ((keeper.due === 0 || held.count === 0) && !keeper.heartbeatDue) return undefined;
  if (keeper.renewing >= options.maxRenewals) return undefined;
  const slots = rotateHeld(held, Math.min(keeper.due, options.batch));
  keeper.due = keeper.due - slots.length;
  keeper.heartbeatDue = false;
  keeper.renewing = keeper.renewing + 1;
  return { kind: RENEW, slots, ended: [], recovers: false };
}

/** The release that is due. One call at a time: connections that end meanwhile share the next. */
export function nextRelease<H>(keeper: KeeperState<H>): SlotCall<H> | undefined {
  if (keeper.contact.away || keeper.releasesFailed) return undefined;
  const ended = takeReleases(keeper.releases);
  return ended === undefined ? undefined : { kind: RELEASE, slots: [], ended, recovers: false };
}
