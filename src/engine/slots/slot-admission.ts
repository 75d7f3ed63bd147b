/** How a new connection gets a slot: which pods are offered, when the store may be asked, what its reply means, and when to decide without it. */
import { SLOT_FORGOTTEN } from "../../core/codes.js";
import { renewalMs } from "../../core/slot-lease.js";
import { ANSWERED, BUSY, NOT_CONFIGURED, UNKNOWN_INCARNATION } from "./contact.js";
import { type KeeperState, requestRecovery, storeFailed, storeReplied, wasPaused } from "./keeper.js";
import type { SlotCallReply } from "./recovery.js";
import { queueRelease } from "./releases.js";

/** Refusal: the process is stopping. */
export const DRAINING = "draining";
/** Refusal: the route has no limits for connections. */
export const NO_CONNECTIONS = "no_connections";
/** Refusal: no pod was offered. */
export const NO_POD = "no_pod";

/** Next step: send the acquire. */
export const ACQUIRE = "acquire";
/** Next step: wait until the keeper has recovered, at most until `waitUntil`. */
export const WAIT = "wait";
/** Next step, or meaning of a reply: decide without the store. */
export const WITHOUT_STORE = "without_store";
/** Meaning of a reply: it is the decision. */
export const DECIDED = "decided";
/** Meaning of a reply: the slot may have been taken, and must be released on every candidate. */
export const UNCERTAIN = "uncertain";
/** Meaning of a reply: the store lost its slots, and takes new connections only after those that live are renewed. */
export const STATE_LOST = "state_lost";

/** The most pods that one call takes. */
const MAX_CANDIDATES = 500;

/**
 * The pods that are up, or all pods where none is, without `excluded`. Each `turn` begins with another pod, because of
 * equally loaded pods the store takes the first. `isDown` tells which pods failed lately.
 */
export function candidatePods(
  pods: string[],
  turn: number,
  excluded: string,
  isDown: (pod: string) => boolean,
): string[] {
  const up: string[] = [];
  const all: string[] = [];
  for (let i = 0; i < pods.length && all.length < MAX_CANDIDATES; i++) {
    const at = turn + i;
    const pod = pods[at - Math.floor(at / pods.length) * pods.length]!;
    if (pod !== excluded) {
      all.push(pod);
      if (!isDown(pod)) up.push(pod);
    }
  }
  return up.length > 0 ? up : all;
}

export interface SlotAdmission {
  app: string;
  /** From `clientNetwork`; absent or empty if unknown. */
  client?: string | undefined;
  /** Candidates, in the order in which they are offered. */
  pods: string[];
  /** The decision must be made by then. */
  until: number;
  /** Waiting ends earlier, so that the store has time to answer. */
  waitUntil: number;
}

export function newSlotAdmission(app: string, pods: string[], now: number, timeoutMs: number): SlotAdmission {
  return { app, pods, until: now + timeoutMs, waitUntil: now + timeoutMs / 2 };
}

/** Whether all connections that live have their leases, as far as is known. */
export function isRecovered<H>(keeper: KeeperState<H>, now: number): boolean {
  const { contact, recovery } = keeper;
  return !contact.away && !contact.recoveryNeeded && recovery === undefined && !wasPaused(keeper, now);
}

export function nextAdmissionStep<H>(keeper: KeeperState<H>, admission: SlotAdmission, now: number): string {
  const { contact } = keeper;
  // After a pause, a request may be handled before the beat that is due.
  if (wasPaused(keeper, now)) requestRecovery(keeper);
  if (isRecovered(keeper, now) && now >= contact.heldBackUntil) return ACQUIRE;
  return contact.away || now >= admission.waitUntil ? WITHOUT_STORE : WAIT;
}

/** How long a WAIT lasts, unless the keeper changes before. */
export function admissionWaitMs<H>(keeper: KeeperState<H>, admission: SlotAdmission, now: number): number {
  const { heldBackUntil } = keeper.contact;
  return (heldBackUntil > now ? Math.min(heldBackUntil, admission.waitUntil) : admission.waitUntil) - now;
}

/** The meaning of a reply to an acquire that was sent `elapsedMs` ago. */
function meaningOf(outcome: string, code: string, elapsedMs: number, leaseMs: number): string {
  if (outcome === NOT_CONFIGURED) return DECIDED;
  if (outcome === BUSY) return WITHOUT_STORE;
  // After a pause, the slot of the reply may have expired and be another connection's.
  if (outcome !== ANSWERED || elapsedMs >= renewalMs(leaseMs)) return UNCERTAIN;
  return code === SLOT_FORGOTTEN ? STATE_LOST : DECIDED;
}

/** Takes the reply to the acquire of this connection. Returns its meaning; after STATE_LOST the next step is due. */
export function slotAcquired<H>(
  keeper: KeeperState<H>,
  asked: { admission: SlotAdmission; connection: string; sentAt: number },
  reply: SlotCallReply,
  now: number,
): string {
  const meaning = meaningOf(reply.outcome, reply.code ?? "", now - asked.sentAt, keeper.leaseMs);
  storeFailed(keeper, reply.outcome);
  if (meaning === DECIDED || meaning === STATE_LOST)
    storeReplied(keeper, reply.incarnation ?? UNKNOWN_INCARNATION, now);
  if (meaning === STATE_LOST) requestRecovery(keeper);
  if (meaning === UNCERTAIN) releaseOnAll(keeper, asked.admission, asked.connection);
  return meaning;
}

/** The slot may have been taken, or may yet be taken, on any of the candidates. */
export function releaseOnAll<H>(keeper: KeeperState<H>, admission: SlotAdmission, connection: string): void {
  const { app, client } = admission;
  for (const pod of admission.pods)
    queueRelease(keeper.releases, { proxy: keeper.options.proxy, connection, pod, app, client });
}
