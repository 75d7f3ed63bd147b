/** The connections of a process in the order of their next renewal: a linked list that works the same in JavaScript and Lua. */

/** One connection and its slot. `H` is the host's own type, which adds what the host needs to close the connection. */
export interface HeldSlot<H> {
  connection: string;
  pod: string;
  app: string;
  /** Its client, from `clientNetwork`; absent or empty if unknown. */
  client?: string | undefined;
  route: string;
  /** Has a lease, as far as this process knows. */
  leased: boolean;
  /** The store may have a lease for it, so its end must be reported with a release. */
  inStore: boolean;
  /** The connection has ended, or must be closed because its slot is lost. */
  ended: boolean;
  previous?: H | undefined;
  next?: H | undefined;
}

export interface HeldList<H> {
  first: H | undefined;
  last: H | undefined;
  count: number;
}

export function newHeldList<H extends HeldSlot<H>>(): HeldList<H> {
  return { first: undefined, last: undefined, count: 0 };
}

/** Appends: the connections before it are renewed first. */
export function appendHeld<H extends HeldSlot<H>>(list: HeldList<H>, slot: H): void {
  slot.previous = list.last;
  slot.next = undefined;
  if (list.last === undefined) list.first = slot;
  else list.last.next = slot;
  list.last = slot;
  list.count = list.count + 1;
}

/** The slot must be on the list. */
export function removeHeld<H extends HeldSlot<H>>(list: HeldList<H>, slot: H): void {
  if (slot.previous === undefined) list.first = slot.next;
  else slot.previous.next = slot.next;
  if (slot.next === undefined) list.last = slot.previous;
  else slot.next.previous = slot.previous;
  slot.previous = undefined;
  slot.next = undefined;
  list.count = list.count - 1;
}

/** The first `most` connections, which move to the end of the list. */
export function rotateHeld<H extends HeldSlot<H>>(list: HeldList<H>, most: number): H[] {
  const taken: H[] = [];
  while (taken.length < most) {
    const slot = list.first;
    if (slot === undefined || slot === taken[0]) break;
    removeHeld(list, slot);
    appendHeld(list, slot);
    taken.push(slot);
  }
  return taken;
}

export function allHeld<H extends HeldSlot<H>>(list: HeldList<H>): H[] {
  const all: H[] = [];
  let slot = list.first;
  while (slot !== undefined) {
    all.push(slot);
    slot = slot.next;
  }
  return all;
}
