/** Upgraded connections of all workers: the main thread takes, renews and releases their slots. */
import type { EnvoySocketRoute } from "../../../config/options/plane-options.js";
import { UNKNOWN_INCARNATION } from "../../../engine/slots/contact.js";
import { allHeld, appendHeld, type HeldList, newHeldList, removeHeld } from "../../../engine/slots/held.js";
import { beatMs, endSlot, newKeeperState, type SlotEvents, slotBeat } from "../../../engine/slots/keeper.js";
import { releaseOnAll } from "../../../engine/slots/slot-admission.js";
import { type AdmissionTimes, countSlot, newSlotCounters } from "../../../engine/slots/without-store.js";
import { nowMs, running } from "../../lua/host.js";
import { worker } from "../../lua/http/state.js";
import { luaMath, luaString } from "../../lua/library.js";
import { processId } from "../../lua/node-name.js";
import { countSlots, SLOTS_LOST, SLOTS_RECLAIMED } from "../../lua/sockets/counters.js";
import { callSoon, MAX_RECLAIM_CALLS, makeCalls, RENEWALS_PER_CALL } from "../../lua/sockets/keeper-calls.js";
import { podFailed, podSucceeded } from "../../lua/sockets/pods.js";
import { inheritIncarnation } from "../../lua/sockets/slot-calls.js";
import { type PlaneSlot, type SlotRoute, slotHome } from "../../lua/sockets/state.js";
import { TRY_AGAIN_LATER, UPSTREAM_TIMEOUT } from "../messages.js";
import { lib, state } from "../module-api.js";
import { envoy } from "../module-state.js";
import { after, start } from "./tasks.js";

export interface EnvoySlot extends PlaneSlot<EnvoySlot> {
  on: EnvoyRoute;
  /** By which its stream can be closed. */
  stream: number;
  /** Its worker was told its pod. */
  placed: boolean;
}

export interface EnvoyRoute extends SlotRoute<EnvoySlot> {
  options: EnvoySocketRoute;
  /** Connections that are open without a slot. The keeper does not know them. */
  slotless: HeldList<EnvoySlot>;
}

interface Sockets {
  routes: EnvoyRoute[];
  byName: { [name: string]: EnvoyRoute | undefined };
  byConnection: { [connection: string]: EnvoySlot | undefined };
  /** Connections whose pod has not answered. */
  calling: number;
  beatMs: number;
  /** What workers told about connections that this thread does not know yet: they are being handed over to it. */
  early: { [connection: string]: { answered: boolean; ended: boolean } | undefined };
  /** This thread has handed its connections over to another version of the script. */
  retired: boolean;
}

export const sockets: Sockets = {
  routes: [],
  byName: {},
  byConnection: {},
  calling: 0,
  beatMs: 0,
  early: {},
  retired: false,
};

const PROXY = "proxy";
const CONNECTIONS = "connections";
/** Numbers for the connections of one version of the script. */
const CONNECTIONS_PER_START = 1000000000;

export function beginSockets(): void {
  const { socketRoutes } = envoy.options;
  if (socketRoutes.length === 0) return;
  const { dict } = worker;
  slotHome.memory = dict;
  dict.safe_add(PROXY, newProxyId());
  slotHome.proxy = dict.get(PROXY) as string;
  slotHome.lastConnection = dict.incr(CONNECTIONS, CONNECTIONS_PER_START, 0) ?? 0;
  let leaseMs = socketRoutes[0]!.leaseMs;
  for (const { leaseMs: other } of socketRoutes) leaseMs = Math.min(leaseMs, other);
  sockets.beatMs = beatMs(leaseMs);
  for (const options of socketRoutes) addRoute(options);
  after(0, beat);
}

function newProxyId(): string {
  const name = luaString.sub(worker.name, 1, 80);
  return luaString.format("%s.%d-%.0f%04x", name, processId(), Math.floor(nowMs()), luaMath.random(0, 65535));
}

function addRoute(options: EnvoySocketRoute): void {
  const { name, leaseMs } = options;
  const times: AdmissionTimes = {};
  const keeper = newKeeperState<EnvoySlot>(
    {
      proxy: slotHome.proxy,
      batch: RENEWALS_PER_CALL,
      fixedBeatMs: sockets.beatMs,
      maxRenewals: 1,
      maxReclaims: MAX_RECLAIM_CALLS,
      events: slotEvents(name),
    },
    leaseMs,
    nowMs(),
  );
  const route: EnvoyRoute = {
    options,
    keeper,
    slotless: newHeldList<EnvoySlot>(),
    counts: newSlotCounters(times),
    sharedIncarnation: UNKNOWN_INCARNATION,
    callsSoon: false,
  };
  inheritIncarnation(route);
  sockets.routes.push(route);
  sockets.byName[name] = route;
}

function slotEvents(route: string): SlotEvents<EnvoySlot> {
  const { logWarning } = running.sync;
  return {
    storeLost() {
      logWarning(`tollgate: the store is unavailable: connections are decided without it: ${route}`);
    },
    storeFound() {
      logWarning(`tollgate: the store is available again: ${route}`);
    },
    stateLost() {
      logWarning(`tollgate: the store lost its connection slots: all connections are renewed: ${route}`);
    },
    leasesLost(count) {
      countSlots(SLOTS_LOST, count);
    },
    reclaimed() {
      countSlots(SLOTS_RECLAIMED, 1);
    },
    closed(slot, code) {
      countSlot(slot.on.counts, slot, -1);
      if (worker.byId[slot.app]?.limits.dryRun === true) {
        keepWithoutSlot(slot);
        return;
      }
      logWarning(`tollgate: a connection lost its slot and is closed: ${slot.pod} ${code}`);
      forget(slot);
      // If it is still being placed, it is refused.
      if (slot.placed) lib.tollgate_close(state, slot.stream, TRY_AGAIN_LATER);
    },
    recoveryEnded() {},
  };
}

function beat(this: void): void {
  if (sockets.retired) return;
  after(sockets.beatMs, beat);
  // A hand-over ends with the messages that are read at once.
  sockets.early = {};
  for (const { keeper } of sockets.routes) slotBeat(keeper, nowMs());
  if (sockets.calling > 0) closeSilent();
  for (const route of sockets.routes) start(() => makeCalls(route));
}

export function soon(route: EnvoyRoute): void {
  callSoon(route, () => makeCalls(route));
}

/** A pod that accepts a connection and does not answer must not occupy the slot for longer than the response timeout. */
function closeSilent(): void {
  const before = nowMs() - envoy.options.responseMs;
  for (const route of sockets.routes) {
    for (const slot of openOn(route)) {
      if (!slot.answered && slot.calledAt < before) {
        podFailed(route.options, slot.pod);
        slot.calledAt = nowMs();
        lib.tollgate_close(state, slot.stream, UPSTREAM_TIMEOUT);
      }
    }
  }
}

export function openOn({ keeper, slotless }: EnvoyRoute): EnvoySlot[] {
  const open = allHeld(keeper.held);
  for (const slot of allHeld(slotless)) open.push(slot);
  return open;
}

export function newSlot(on: EnvoyRoute, app: string, client: string, stream: number): EnvoySlot {
  return {
    on,
    connection: "",
    pod: "",
    app,
    client,
    route: on.options.name,
    leased: false,
    inStore: false,
    // Until it is admitted there is nothing to end.
    ended: true,
    pending: undefined,
    calledAt: 0,
    answered: false,
    slotless: false,
    stream,
    placed: false,
  };
}

/** The connection is admitted, with a slot if `leased`; without the store, admission has counted it. */
export function holdSlot(slot: EnvoySlot, leased: boolean): void {
  slot.leased = leased;
  slot.inStore = leased;
  slot.ended = false;
  appendHeld(slot.on.keeper.held, slot);
  if (leased) countSlot(slot.on.counts, slot, 1);
  begin(slot);
}

/** From now on its pod is expected to answer. */
function begin(slot: EnvoySlot): void {
  sockets.calling = sockets.calling + 1;
  sockets.byConnection[slot.connection] = slot;
}

/** The connection is admitted without a slot, because of a dry run. */
export function holdWithoutSlot(slot: EnvoySlot): void {
  keepWithoutSlot(slot);
  begin(slot);
}

function keepWithoutSlot(slot: EnvoySlot): void {
  slot.slotless = true;
  slot.ended = false;
  appendHeld(slot.on.slotless, slot);
}

/** Repeated calls do nothing. */
export function endConnection(slot: EnvoySlot): void {
  const { on } = slot;
  if (slot.slotless) {
    if (slot.ended) return;
    slot.ended = true;
    removeHeld(on.slotless, slot);
    forget(slot);
  } else if (endSlot(on.keeper, slot)) {
    countSlot(on.counts, slot, -1);
    forget(slot);
  }
  soon(on);
}

function forget(slot: EnvoySlot): void {
  sockets.byConnection[slot.connection] = undefined;
  if (!slot.answered) sockets.calling = sockets.calling - 1;
}

/** Gives up a connection that is being placed. */
export function abandon(slot: EnvoySlot): void {
  if (slot.pending !== undefined) releaseOnAll(slot.on.keeper, slot.pending, slot.connection);
  slot.pending = undefined;
  endConnection(slot);
}

function noteEarly(connection: string, ended: boolean): void {
  const known = sockets.early[connection];
  sockets.early[connection] = { answered: true, ended: ended || known?.ended === true };
}

export function podAnswered(connection: string): void {
  const slot = sockets.byConnection[connection];
  if (slot === undefined) noteEarly(connection, false);
  if (slot === undefined || slot.ended || slot.answered) return;
  slot.answered = true;
  sockets.calling = sockets.calling - 1;
  podSucceeded(slot.pod);
}

export function podUnreached(connection: string): void {
  const slot = sockets.byConnection[connection];
  if (slot !== undefined) podFailed(slot.on.options, slot.pod);
}

export function connectionEnded(connection: string): void {
  const slot = sockets.byConnection[connection];
  if (slot !== undefined) endConnection(slot);
  else noteEarly(connection, true);
}
