/** Typed calls of the slot scripts, for the slots of one route. Every call may be repeated. */
import { SLOT_INVALID_ARGUMENT } from "../core/codes.js";
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
import type { ScriptName } from "../scripts/catalog.js";
import type { RedisValue, ScriptReply } from "../scripts/redis-api.js";
import { InvalidArgument, StoreError } from "../store/errors.js";
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

/** @param tag the hash tag of the route */
export function createSlots(store: Store, tag: string) {
  const prefix = connectionPrefix(tag);

  async function run(script: ScriptName, keys: string[], args: RedisValue[], options?: RunOptions) {
    const reply = await store.run(script, keys, args, options);
    if (reply[2] === SLOT_INVALID_ARGUMENT) throw new InvalidArgument(script, String(reply[3]));
    return reply;
  }

  /** As `run`. A script that needs memory is replaced by one that does not, if the store has none. */
  async function runWith(
    [script, withoutMemory]: [ScriptName, ScriptName],
    keys: string[],
    args: RedisValue[],
    options?: RunOptions,
  ) {
    try {
      return await run(script, keys, args, options);
    } catch (error) {
      if (!(error instanceof StoreError) || error.kind !== "out_of_memory") throw error;
      return run(withoutMemory, keys, args, options);
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
    const args = slots.flatMap(({ connection, pod, app, client = "" }) => [
      connection,
      numberOf(podKey(prefix, pod)),
      app === "" ? 0 : numberOf(appConnectionsKey(prefix, app)),
      client === "" ? 0 : numberOf(clientConnectionsKey(prefix, client)),
      client,
    ]);
    return { keys: [...numbers.keys()], args };
  }

  return {
    async acquire(request: SlotRequest, limits: SlotLimits, options?: RunOptions): Promise<SlotAnswer> {
      const windowMs = rateWindowMs(limits);
      const windowOfClientMs = clientWindowMs(limits);
      const { client = "" } = request;
      const keys = [
        connectionClockKey(prefix),
        allConnectionsKey(prefix),
        releasedKey(prefix),
        connectionRateKey(prefix, String(windowMs)),
        rejectedKey(prefix),
        appConnectionsKey(prefix, request.app),
        clientConnectionsKey(prefix, client),
        clientRateKey(prefix, String(windowOfClientMs), client),
        ...request.pods.map((pod) => podKey(prefix, pod)),
      ];
      const args = [
        request.proxy,
        request.connection,
        limits.leaseMs,
        limits.maxPerPod,
        limits.maxTotal,
        limits.maxPerApp,
        limits.ratePerSecond > 0 ? limits.burst : 0,
        windowMs,
        request.reclaim === true ? 1 : 0,
        request.incarnation ?? UNKNOWN_INCARNATION,
        limits.maxPerClient ?? 0,
        limits.burstPerClient ?? 0,
        windowOfClientMs,
        client,
      ];
      const reply = await run("slot-acquire", keys, args, options);
      return {
        allowed: reply[0] === 1,
        count: Number(reply[1]),
        code: String(reply[2]),
        pod: request.pods[Number(reply[3])] ?? "",
        retryAfterMs: Number(reply[4]),
        reclaimed: Number(reply[5]),
        incarnation: String(reply[6]),
      };
    },

    /** Renews leases and the heartbeat of the proxy. Returns the connections whose lease was lost. */
    async renew(proxy: string, leaseMs: number, slots: SlotName[], options?: RunOptions) {
      const { keys, args } = numbered(slots);
      const fixed = [connectionClockKey(prefix), allConnectionsKey(prefix), proxyHeartbeatKey(prefix, proxy)];
      const reply = await runWith(
        ["slot-renew", "slot-extend"],
        [...fixed, ...keys],
        [proxy, leaseMs, ...args],
        options,
      );
      return { renewed: Number(reply[1]), lost: without(reply, slots, 4), incarnation: String(reply[3]) };
    },

    /** Releases slots. Returns the connections that held none. */
    async release(proxy: string, leaseMs: number, slots: SlotName[], options?: RunOptions) {
      const { keys, args } = numbered(slots);
      const fixed = [connectionClockKey(prefix), allConnectionsKey(prefix), releasedKey(prefix)];
      const reply = await runWith(
        ["slot-release", "slot-free"],
        [...fixed, ...keys],
        [proxy, leaseMs, ...args],
        options,
      );
      return { released: Number(reply[1]), unknown: without(reply, slots, 3) };
    },

    async counts(pods: string[], leaseMs: number, options?: RunOptions) {
      const fixed = [connectionClockKey(prefix), allConnectionsKey(prefix), rejectedKey(prefix)];
      const keys = [...fixed, ...pods.map((pod) => podKey(prefix, pod))];
      const reply = await run("slot-counts", keys, [leaseMs], options);
      const perPod = new Map(pods.map((pod, i) => [pod, Number(reply[4 + i])]));
      return { total: Number(reply[1]), rejected: Number(reply[3]), perPod };
    },
  };
}

/** The connections for which the script replied 0. */
function without(reply: ScriptReply, slots: SlotName[], first: number): string[] {
  return slots.filter((_, i) => reply[first + i] !== 1).map((slot) => slot.connection);
}

const unavailable = new Set<string>(["timeout", "unavailable", "denied", "closed"]);

/** Outcome of a failed store call, as the slot engine distinguishes them. */
export function outcomeOf(error: unknown): string {
  if (!(error instanceof StoreError)) return FAILED;
  if (error.kind === "overloaded") return BUSY;
  return unavailable.has(error.kind) ? UNAVAILABLE : FAILED;
}
