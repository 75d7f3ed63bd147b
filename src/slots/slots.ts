/** Connection slots as the service uses them: one typed call per script. Every call may be repeated. */
import { SLOT_INVALID_ARGUMENT } from "../core/codes.js";
import {
  allConnectionsKey,
  appConnectionsKey,
  connectionClockKey,
  connectionPrefix,
  connectionRateKey,
  podKey,
  proxyHeartbeatKey,
  rejectedKey,
  releasedKey,
} from "../core/keys.js";
import type { ScriptName } from "../scripts/catalog.js";
import type { RedisValue, ScriptReply } from "../scripts/redis-api.js";
import { RefusedArgument } from "../store/refused-argument.js";
import type { RunOptions, Store } from "../store/store.js";

export interface SlotLimits {
  maxPerPod: number;
  /** 0: no limit. */
  maxTotal: number;
  /** 0: no limit. */
  maxPerApp: number;
  /** New connections per second over all proxies; 0: no limit. */
  ratePerSecond: number;
  /** As many may come at once. In any span of burst ÷ rate seconds there are never more than `burst`. */
  burst: number;
  leaseMs: number;
}

export interface SlotRequest {
  proxy: string;
  connection: string;
  app: string;
  /** One pod, or candidates of which the least loaded one with room is taken. */
  pods: string[];
  /** The connection lives already and lost its lease: it needs room, but is not new for the rate. */
  reclaim?: boolean;
  /** Since when the store remembers, as its last answer told it. A store that forgot since takes no new connection. */
  memory?: number;
}

export interface SlotAnswer {
  allowed: boolean;
  /** Connections on the pod, this one included when allowed. */
  count: number;
  code: string;
  /** The pod that was taken; empty when refused. */
  pod: string;
  retryAfterMs: number;
  /** Leases that had run out and were dropped on the way. */
  reclaimed: number;
  /** Since when the store remembers: microseconds on its clock. */
  memory: number;
}

export interface HeldSlot {
  connection: string;
  pod: string;
  app: string;
}

export type Slots = ReturnType<typeof createSlots>;

/** The seeds' documents call the window of the rate by its length. */
export function rateWindowMs(limits: SlotLimits): number {
  return limits.ratePerSecond > 0 ? Math.ceil((limits.burst * 1000) / limits.ratePerSecond) : 1000;
}

export function createSlots(store: Store, prefix: string = connectionPrefix(store.hashTags)) {
  async function run(script: ScriptName, keys: string[], args: RedisValue[], options?: RunOptions) {
    const reply = await store.run(script, keys, args, options);
    if (reply[2] === SLOT_INVALID_ARGUMENT) throw new RefusedArgument(script, String(reply[3]));
    return reply;
  }

  /** The keys of pods and apps, each once, and for each slot the numbers of its two. */
  function numbered(slots: HeldSlot[]) {
    const numbers = new Map<string, number>();
    const numberOf = (key: string) => {
      const known = numbers.get(key) ?? numbers.size + 1;
      numbers.set(key, known);
      return known;
    };
    const args = slots.flatMap((slot) => [
      slot.connection,
      numberOf(podKey(prefix, slot.pod)),
      numberOf(appConnectionsKey(prefix, slot.app)),
    ]);
    return { keys: [...numbers.keys()], args };
  }

  return {
    async acquire(request: SlotRequest, limits: SlotLimits, options?: RunOptions): Promise<SlotAnswer> {
      const windowMs = rateWindowMs(limits);
      const keys = [
        connectionClockKey(prefix),
        allConnectionsKey(prefix),
        releasedKey(prefix),
        connectionRateKey(prefix, String(windowMs)),
        rejectedKey(prefix),
        appConnectionsKey(prefix, request.app),
        ...request.pods.map((pod) => podKey(prefix, pod)),
      ];
      const args = [
        ...[request.proxy, request.connection, limits.leaseMs],
        ...[limits.maxPerPod, limits.maxTotal, limits.maxPerApp],
        ...[limits.ratePerSecond > 0 ? limits.burst : 0, windowMs],
        ...[request.reclaim === true ? 1 : 0, request.memory ?? 0],
      ];
      const reply = await run("slot-acquire", keys, args, options);
      return {
        allowed: reply[0] === 1,
        count: Number(reply[1]),
        code: String(reply[2]),
        pod: request.pods[Number(reply[3])] ?? "",
        retryAfterMs: Number(reply[4]),
        reclaimed: Number(reply[5]),
        memory: Number(reply[6]),
      };
    },

    /** Renews leases and tells that the proxy lives. Answers the connections whose lease was lost. */
    async renew(proxy: string, leaseMs: number, slots: HeldSlot[], options?: RunOptions) {
      const { keys, args } = numbered(slots);
      const fixed = [connectionClockKey(prefix), allConnectionsKey(prefix), proxyHeartbeatKey(prefix, proxy)];
      const reply = await run("slot-renew", [...fixed, ...keys], [proxy, leaseMs, ...args], options);
      return { renewed: Number(reply[1]), lost: without(reply, slots, 4), memory: Number(reply[3]) };
    },

    /** Frees slots. Answers the connections that held none. */
    async release(proxy: string, leaseMs: number, slots: HeldSlot[], options?: RunOptions) {
      const { keys, args } = numbered(slots);
      const fixed = [connectionClockKey(prefix), allConnectionsKey(prefix), releasedKey(prefix)];
      const reply = await run("slot-release", [...fixed, ...keys], [proxy, leaseMs, ...args], options);
      return { released: Number(reply[1]), unknown: without(reply, slots, 3) };
    },

    async counts(pods: string[], leaseMs: number) {
      const fixed = [connectionClockKey(prefix), allConnectionsKey(prefix), rejectedKey(prefix)];
      const reply = await run("slot-counts", [...fixed, ...pods.map((pod) => podKey(prefix, pod))], [leaseMs]);
      const perPod = new Map(pods.map((pod, i) => [pod, Number(reply[4 + i])]));
      return { total: Number(reply[1]), rejected: Number(reply[3]), perPod };
    },
  };
}

/** The connections for which the script answered 0. */
function without(reply: ScriptReply, slots: HeldSlot[], first: number): string[] {
  return slots.filter((_, i) => reply[first + i] !== 1).map((slot) => slot.connection);
}
