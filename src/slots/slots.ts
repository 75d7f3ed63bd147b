/** Typed calls of the slot scripts, for the slots of one route. Every call may be repeated. */
import {
  allConnectionsKey,
  appConnectionsKey,
  clientConnectionsKey,
  clientRateKey,
  connectionClockKey,
  connectionPrefix,
  connectionRateKey,
  podKey,
  proxyHeartbeatKey,
  rejectedKey,
  releasedKey,
} from "../core/keys.js";
import { BUSY, FAILED, UNAVAILABLE, UNKNOWN_INCARNATION } from "../engine/slots/contact.js";
import { clientWindowMs, type PlacementLimits, rateWindowMs } from "../engine/slots/without-store.js";
import { StoreError } from "../store/errors.js";
import { callOperation, type OperationCall } from "../store/operations.js";
import type { RunOptions, Store } from "../store/store.js";
import { routeTag } from "./route-tag.js";

export interface SlotLimits extends PlacementLimits {
  leaseMs: number;
}

export interface SlotRequest {
  proxy: string;
  connection: string;
  app: string;
  /** From `clientNetwork`; absent or empty if unknown. */
  client?: string | undefined;
  /** One pod, or candidates: the least loaded one below its limit is taken. */
  pods: string[];
  /** The connection is open and lost its lease: the limits apply to it, but not the rate. */
  reclaim?: boolean;
  /** The store incarnation of the last reply. A store that lost its slots since admits no new connection. */
  incarnation?: string;
}

export interface SlotAnswer {
  allowed: boolean;
  /** Connections on the pod, this one included when allowed. */
  count: number;
  code: string;
  /** The pod that was taken; empty when refused. */
  pod: string;
  retryAfterMs: number;
  /** Expired leases that the call removed. */
  reclaimed: number;
  /** The store incarnation. */
  incarnation: string;
}

export interface SlotName {
  connection: string;
  pod: string;
  /** Empty: it is not counted for an app. */
  app: string;
  /** As it was when the slot was acquired; absent or empty if it was unknown. */
  client?: string | undefined;
}

/** The slots of one route. */
export type Slots = ReturnType<typeof createSlots>;

/** The slots of a cluster, by the names of its routes. */
export type RouteSlots = ReturnType<typeof createRouteSlots>;

/** @param placementOf the configured placement of a route */
export function createRouteSlots(
  store: Store,
  cluster: string,
  placementOf: (route: string) => number | undefined = () => undefined,
) {
  const known = new Map<string, { placement: number | undefined; tag: string; slots: Slots }>();

  function on(route: string) {
    const placement = placementOf(route);
    const found = known.get(route);
    if (found !== undefined && found.placement === placement) return found;
    const tag = routeTag(cluster, route, placement);
    const made = { placement, tag, slots: createSlots(store, tag) };
    if (known.size >= MAX_KNOWN_ROUTES) known.clear();
    known.set(route, made);
    return made;
  }

  return {
    /** The hash tag of a route. */
    tagOf: (route: string) => on(route).tag,
    of: (route: string) => on(route).slots,
  };
}

/** Bounds the memory: data planes name routes. */
const MAX_KNOWN_ROUTES = 20_000;

/** Operations with a substitute that needs no memory, for a store that has none. */
const WITHOUT_MEMORY = { "slot-renew": "slot-extend", "slot-release": "slot-free" } as const;

/** @param tag the hash tag of the route */
export function createSlots(store: Pick<Store, "run">, tag: string) {
  const prefix = connectionPrefix(tag);
  const clock = connectionClockKey(prefix);
  const all = allConnectionsKey(prefix);
  const released = releasedKey(prefix);
  const rejected = rejectedKey(prefix);

  async function callBatch<N extends keyof typeof WITHOUT_MEMORY>(
    name: N,
    batch: OperationCall<N>,
    options?: RunOptions,
  ) {
    try {
      return await callOperation(store, name, batch, options);
    } catch (error) {
      if (!(error instanceof StoreError) || error.kind !== "out_of_memory") throw error;
      return callOperation(store, WITHOUT_MEMORY[name], batch, options);
    }
  }

  /** The keys of pods, apps and clients, each once, and for each slot the numbers of its keys. */
  function numbered(slots: SlotName[]) {
    const numbers = new Map<string, number>();
    const numberOf = (key: string) => {
      const known = numbers.get(key) ?? numbers.size + 1;
      numbers.set(key, known);
      return known;
    };
    const items = slots.map(({ connection, pod, app, client = "" }) => ({
      connection,
      pod: numberOf(podKey(prefix, pod)),
      app: app === "" ? 0 : numberOf(appConnectionsKey(prefix, app)),
      client: client === "" ? 0 : numberOf(clientConnectionsKey(prefix, client)),
      clientName: client,
    }));
    return { moreKeys: [...numbers.keys()], items };
  }

  return {
    async acquire(request: SlotRequest, limits: SlotLimits, options?: RunOptions): Promise<SlotAnswer> {
      const { proxy, connection, app, client = "", pods, reclaim = false, incarnation = UNKNOWN_INCARNATION } = request;
      const { leaseMs, maxPerPod, maxTotal, maxPerApp, maxPerClient = 0, burstPerClient = 0 } = limits;
      const burst = limits.ratePerSecond > 0 ? limits.burst : 0;
      const windows = { windowMs: rateWindowMs(limits), clientWindowMs: clientWindowMs(limits) };
      const keys = {
        ...{ clock, all, released, rejected },
        rate: connectionRateKey(prefix, String(windows.windowMs)),
        app: appConnectionsKey(prefix, app),
        client: clientConnectionsKey(prefix, client),
        clientRate: clientRateKey(prefix, String(windows.clientWindowMs), client),
      };
      const values = {
        ...{ proxy, connection, client, reclaim, incarnation: Number(incarnation), ...windows },
        ...{ leaseMs, maxPerPod, maxTotal, maxPerApp, burst, maxPerClient, burstPerClient },
      };
      const moreKeys = pods.map((pod) => podKey(prefix, pod));
      const reply = await callOperation(store, "slot-acquire", { keys, moreKeys, values }, options);
      const { place, expired, ...answer } = reply;
      return { ...answer, pod: pods[place] ?? "", reclaimed: expired, incarnation: String(answer.incarnation) };
    },

    /** Renews leases and the heartbeat of the proxy. Returns the connections whose lease was lost. */
    async renew(proxy: string, leaseMs: number, slots: SlotName[], options?: RunOptions) {
      const keys = { clock, all, heartbeat: proxyHeartbeatKey(prefix, proxy) };
      const batch = { keys, values: { proxy, leaseMs }, ...numbered(slots) };
      const { renewed, incarnation, items } = await callBatch("slot-renew", batch, options);
      return { renewed, lost: notHeld(slots, items), incarnation: String(incarnation) };
    },

    /** Releases slots. Returns the connections that held none. */
    async release(proxy: string, leaseMs: number, slots: SlotName[], options?: RunOptions) {
      const batch = { keys: { clock, all, released }, values: { proxy, leaseMs }, ...numbered(slots) };
      const { released: count, items } = await callBatch("slot-release", batch, options);
      return { released: count, unknown: notHeld(slots, items) };
    },

    async counts(pods: string[], leaseMs: number, options?: RunOptions) {
      const moreKeys = pods.map((pod) => podKey(prefix, pod));
      const call = { keys: { clock, all, rejected }, moreKeys, values: { leaseMs } };
      const { total, rejected: refused, items } = await callOperation(store, "slot-counts", call, options);
      return { total, rejected: refused, perPod: new Map(pods.map((pod, i) => [pod, items[i]?.count ?? 0])) };
    },
  };
}

/** The connections that have no slot. */
function notHeld(slots: SlotName[], items: { held: boolean }[]): string[] {
  return slots.filter((_, i) => items[i]?.held !== true).map((slot) => slot.connection);
}

const unavailable = new Set<string>(["timeout", "unavailable", "denied", "closed"]);

/** Outcome of a failed store call, as the slot engine distinguishes them. */
export function outcomeOf(error: unknown): string {
  if (!(error instanceof StoreError)) return FAILED;
  if (error.kind === "overloaded") return BUSY;
  return unavailable.has(error.kind) ? UNAVAILABLE : FAILED;
}
