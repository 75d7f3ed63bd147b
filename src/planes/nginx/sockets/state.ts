/** State of a worker's upgraded connections. */
import type { NginxSocketRoute } from "../../../config/options/plane-options.js";
import { allHeld, type HeldList } from "../../../engine/slots/held.js";
import type { PlaneSlot, SlotRoute } from "../../lua/sockets/state.js";
import type { SharedDict } from "../ngx.js";

/** One connection, from the request for its slot to its end. */
export interface NginxSlot extends PlaneSlot<NginxSlot> {
  /** Its route in this worker. */
  on: SocketRoute;
  /** Its number in shared memory; 0: it has none, because memory was full. */
  place: number;
  /** From `currentSocket`. */
  socket: string;
}

/** One route and its connections in this worker. */
export interface SocketRoute extends SlotRoute<NginxSlot> {
  options: NginxSocketRoute;
  /** Connections that are open without a slot. The keeper does not know them. */
  slotless: HeldList<NginxSlot>;
}

/** A pod of a route and its connection limit. */
export interface PodLimit {
  route: string;
  pod: string;
  /** Its name in the configuration. */
  upstream: string;
  limit: number;
}

export interface SocketState {
  dict: SharedDict;
  routes: SocketRoute[];
  byName: { [name: string]: SocketRoute | undefined };
  beatMs: number;
  /** Its number among the workers in shared memory; -1: none was free. */
  worker: number;
  /** Connections whose pod has not answered. */
  calling: number;
  byExchange: { [id: string]: NginxSlot | undefined };
  /** Numbers in shared memory that are free again. */
  freePlaces: number[];
  topPlace: number;
  /** When this worker noticed that nginx is quitting; 0: it is not. */
  quittingSince: number;
  /** The configured pods, and former ones with connections. */
  pods: PodLimit[];
  /** Clients whose connections lost their slots, to be closed. */
  closing: string[];
}

/** The rest is set when nginx and the worker start. One table, so that functions need no parameter for it. */
export const sockets = {
  routes: [],
  byName: {},
  calling: 0,
  byExchange: {},
  freePlaces: [],
  topPlace: 0,
  quittingSince: 0,
  pods: [],
  closing: [],
} as unknown as SocketState;

/** All open connections of this worker on a route. */
export function openOn({ keeper, slotless }: SocketRoute): NginxSlot[] {
  const open = allHeld(keeper.held);
  for (const slot of allHeld(slotless)) open.push(slot);
  return open;
}
