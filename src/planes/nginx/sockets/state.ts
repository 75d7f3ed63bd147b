/** State of a worker's upgraded connections. */
import type { NginxSocketRoute } from "../../../config/options/plane-options.js";
import type { SlotAdmission } from "../../../engine/slots/admission.js";
import { allHeld, type HeldList, type HeldSlot } from "../../../engine/slots/held.js";
import type { KeeperState } from "../../../engine/slots/keeper.js";
import type { SlotCounters } from "../../../engine/slots/without-store.js";
import type { SharedDict } from "../ngx.js";

/** One connection, from the request for its slot to its end. */
export interface NginxSlot extends HeldSlot<NginxSlot> {
  /** Its route in this worker. */
  on: SocketRoute;
  /** While an acquire is not answered: the slot may have been taken on any of the candidates. */
  pending: SlotAdmission | undefined;
  /** Its number in shared memory; 0: it has none, because memory was full. */
  place: number;
  /** From `currentClient`. */
  client: string;
  /** When the request was sent to the pod, milliseconds since 1970. */
  calledAt: number;
  /** The pod has answered. */
  answered: boolean;
  /** Of an app on a dry run, above a limit. */
  slotless: boolean;
}

/** One route and its connections in this worker. */
export interface SocketRoute {
  options: NginxSocketRoute;
  /** Set when the worker starts. */
  keeper: KeeperState<NginxSlot>;
  /** Connections that are open without a slot. The keeper does not know them. */
  slotless: HeldList<NginxSlot>;
  /** Its connections in all workers. */
  counts: SlotCounters;
  /** The incarnation in shared memory, as far as this worker knows. */
  sharedIncarnation: string;
  /** The calls that are due will be made after this turn of the event loop. */
  callsSoon: boolean;
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
  /** This worker process. */
  proxy: string;
  beatMs: number;
  /** Its number among the workers in shared memory; -1: none was free. */
  worker: number;
  lastConnection: number;
  /** Rotates the candidates. */
  turn: number;
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
  lastConnection: 0,
  turn: 0,
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
