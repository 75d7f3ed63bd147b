/** Upgraded connections of a Lua plane, as the parts that nginx and Envoy share see them. */
import type { SocketRouteLimits } from "../../../config/options/plane-options.js";
import type { HeldSlot } from "../../../engine/slots/held.js";
import type { KeeperState } from "../../../engine/slots/keeper.js";
import type { SlotAdmission } from "../../../engine/slots/slot-admission.js";
import type { SlotCounters } from "../../../engine/slots/without-store.js";
import type { SharedMemory } from "../proxy.js";

/** A route that accepts connections. The limits are used without the store only; otherwise the service decides. */
export interface PlaneSocketRoute extends SocketRouteLimits {
  /** Host and path. */
  name: string;
  /** Skip a pod after this many failures in a row. */
  tolerated: number;
  pods: string[];
}

/** One connection, from the request for its slot to its end. */
export interface PlaneSlot<S> extends HeldSlot<S> {
  on: SlotRoute<S>;
  /** While an acquire is not answered: the slot may have been taken on any of the candidates. */
  pending: SlotAdmission | undefined;
  /** When the request was sent to the pod, milliseconds since 1970. */
  calledAt: number;
  /** The pod has answered. */
  answered: boolean;
  /** Of an app on a dry run, above a limit. */
  slotless: boolean;
}

/** One route and its connections that this Lua state keeps. */
export interface SlotRoute<S> {
  options: PlaneSocketRoute;
  /** Set when the worker starts. */
  keeper: KeeperState<S>;
  /** Its connections in all workers. */
  counts: SlotCounters;
  /** The incarnation in shared memory, as far as this worker knows. */
  sharedIncarnation: string;
  /** The calls that are due will be made after this turn of the event loop. */
  callsSoon: boolean;
}

export interface SlotHome {
  memory: SharedMemory;
  /** The process that keeps the connections, since its last start. */
  proxy: string;
  lastConnection: number;
  /** Rotates the candidates. */
  turn: number;
}

/** The rest is set when the plane starts. */
export const slotHome = { lastConnection: 0, turn: 0 } as SlotHome;
