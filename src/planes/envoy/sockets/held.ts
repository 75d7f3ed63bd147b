/**
 * The open connections of this Lua state, only for decisions without the store. Envoy does not report the end of a stream
 * to a script, but it drops the stream's handle: in a table with weak keys the entry vanishes with the next garbage
 * collection.
 */

import type { Several } from "../../../engine/host.js";
import {
  type AdmissionTimes,
  countSlot,
  newSlotCounters,
  type SlotCounters,
} from "../../../engine/slots/without-store.js";
import type { Handle } from "../envoy-api.js";

interface HeldSocket {
  pod: string;
  app: string;
  route: string;
}

type HeldTable = { readonly __held: never };

declare function setmetatable(this: void, table: object, meta: { __mode: string }): HeldTable;
declare function rawset(this: void, table: HeldTable, handle: Handle, socket: HeldSocket): void;
declare function next(
  this: void,
  table: HeldTable,
  after?: Handle,
): Several<[Handle | undefined, HeldSocket | undefined]>;
declare function collectgarbage(this: void, what: "collect"): void;

const held = setmetatable({}, { __mode: "k" });
/** Admissions without the store. */
const admittedAt: AdmissionTimes = {};

export function holdSocket(handle: Handle, socket: HeldSocket): void {
  rawset(held, handle, socket);
}

/** The numbers of a route now; what is added to them is not kept. */
export function heldCounters(route: string): SlotCounters {
  // Objects with a finalizer, as handles are, leave the table in the collection after the one that found them.
  collectgarbage("collect");
  collectgarbage("collect");
  const counters = newSlotCounters(admittedAt);
  let [handle, socket] = next(held);
  while (handle !== undefined && socket !== undefined) {
    if (socket.route === route) countSlot(counters, socket, 1);
    [handle, socket] = next(held, handle);
  }
  return counters;
}
