/** What a process knows about the store's slots: whether the store answers, and whether it still has its slot state. */

/** Outcome of a call: the store replied. */
export const ANSWERED = "answered";
/** The call was not carried out, and can be repeated at once. */
export const BUSY = "busy";
/** The call failed and may have been carried out; the store is reachable. */
export const FAILED = "failed";
/** The service or the store is unreachable. The call may have been carried out. */
export const UNAVAILABLE = "unavailable";
/** The service has no such route, because its configuration differs. */
export const NOT_CONFIGURED = "not_configured";

/** No reply has reported an incarnation yet. */
export const UNKNOWN_INCARNATION = "0";

/**
 * After the store lost its state, every process renews its connections within this time. New connections wait for it:
 * otherwise they would take the place of connections that the store does not know yet.
 */
export const ALL_RECOVERED_MS = 3000;

export interface StoreContact {
  /** Of the last reply. A text: the number has more digits than Lua prints. */
  incarnation: string;
  /** The store does not answer. */
  away: boolean;
  /** All connections must be renewed before a new one is admitted. */
  recoveryNeeded: boolean;
  /** No new connections before this time, because the store lost its state. */
  heldBackUntil: number;
  /** How long new connections are held back then. */
  holdBackMs: number;
}

export function newStoreContact(holdBackMs: number): StoreContact {
  return {
    incarnation: UNKNOWN_INCARNATION,
    away: false,
    recoveryNeeded: false,
    heldBackUntil: 0,
    holdBackMs,
  };
}

/** Takes the incarnation of a reply. Returns true when the store has lost its slots since the reply before. */
export function noteIncarnation(contact: StoreContact, incarnation: string, now: number): boolean {
  if (incarnation === UNKNOWN_INCARNATION) return false;
  const before = contact.incarnation;
  contact.incarnation = incarnation;
  if (before === UNKNOWN_INCARNATION || before === incarnation) return false;
  contact.recoveryNeeded = true;
  contact.heldBackUntil = now + contact.holdBackMs;
  return true;
}
