/**
 * The sockets that this Lua state has let in and that still live. Nobody tells a script of the end of a stream, but Envoy
 * lets go of the stream's handle then: from a table that does not keep its keys it vanishes with the next collection of
 * garbage. Only for decisions without the store; whether a slot is held never depends on it.
 */
import type { Several } from "../../lua/library.js";
import type { Handle } from "../envoy-api.js";

interface HeldSocket {
  pod: string;
  app: string;
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

export function holdSocket(handle: Handle, pod: string, app: string): void {
  rawset(held, handle, { pod, app });
}

export interface HeldCounts {
  total: number;
  ofApp: number;
  ofPod: { [pod: string]: number | undefined };
}

/** `app` is the one that is counted by itself. */
export function countHeld(app: string): HeldCounts {
  // What has a finalizer, as handles have, leaves the table in the collection after the one that found it.
  collectgarbage("collect");
  collectgarbage("collect");
  const counts: HeldCounts = { total: 0, ofApp: 0, ofPod: {} };
  let [handle, socket] = next(held);
  while (handle !== undefined && socket !== undefined) {
    counts.total = counts.total + 1;
    if (socket.app === app) counts.ofApp = counts.ofApp + 1;
    counts.ofPod[socket.pod] = (counts.ofPod[socket.pod] ?? 0) + 1;
    [handle, socket] = next(held, handle);
  }
  return counts;
}
