/** Connection slots in the store: the clock of their leases, and the arguments that name connections. */
import { connectionMember } from "../../core/keys.js";
import { isIdentifier, storedNumber, wholeNumbers } from "../../core/platform.js";
import { renewalMs } from "../../core/slot-lease.js";
import { type Call, fields, text } from "../operation.js";
import type { RedisApi } from "../redis-api.js";
import { isWithin, MAX_DURATION_MS, storeTime } from "./cluster.js";

/** Maximum number of connections per call. */
export const MAX_BATCH = 500;
/** Keys of routes, pods and apps that are no longer used expire after a day. */
const DAY_MS = 86400000;

/** How long a key of a route, a pod or an app is kept without use. */
export function unusedMs(leaseMs: number): number {
  return DAY_MS + leaseMs;
}

/** The same for a client's key: there are as many as clients. A renewal restores one that expired while the store stood still. */
export function unusedClientMs(leaseMs: number): number {
  return leaseMs * 2;
}

export interface SlotClock {
  /**
   * When the clock was first read, in microseconds. It changes when the store loses all slots while their connections
   * still exist.
   */
  incarnation: number;
  /** The store's clock at the last call, in microseconds. */
  told: number;
  /** Microseconds that never go back, for the rate of new connections. */
  steady: number;
  /**
   * Microseconds; advances per call by at most `renewalMs`, the time between two renewals. In normal operation it follows
   * the clock. After an outage of the store, or when its clock jumps ahead, it advances by one step only, so that every
   * holder has time to renew before its lease ends.
   */
  lease: number;
}

export function readSlotClock(redis: RedisApi, key: string, leaseMs: number): SlotClock {
  const now = storeTime(redis);
  const stored = redis.call("HMGET", key, "told", "steady", "lease", "memory");
  const elapsed = Math.max(now - storedNumber(stored[0], now), 0);
  return {
    incarnation: storedNumber(stored[3], now),
    told: now,
    steady: storedNumber(stored[1], now) + elapsed,
    lease: storedNumber(stored[2], now) + Math.min(elapsed, Math.floor(renewalMs(leaseMs * 1000))),
  };
}

/** Reads the clock, and stores that it was read. */
export function advanceSlotClock(redis: RedisApi, key: string, leaseMs: number): SlotClock {
  const clock = readSlotClock(redis, key, leaseMs);
  const { told, steady, lease, incarnation } = clock;
  redis.call("HSET", key, "told", told, "steady", steady, "lease", lease, "memory", incarnation);
  redis.call("PEXPIRE", key, unusedMs(leaseMs));
  return clock;
}

/**
 * A batch of connections. Of each: its id, the numbers of its keys among `moreKeys`, counted from 1 (app and client 0 for none), and
 * its client (empty for none).
 */
export const BATCH = fields(text("proxy"), "leaseMs");
const BATCH_KEYS = fields("pod", "app", "client");
export const BATCH_ITEM = fields(text("connection"), "pod", "app", "client", text("clientName"));

/** A connection of a batch: its member in the sets, and their keys. Empty: it is not counted for an app, or a client. */
export interface BatchSlot {
  member: string;
  podKey: string;
  appKey: string;
  clientKey: string;
}

type BatchCall = Call<{ keys: readonly string[]; arguments: readonly [typeof BATCH]; reply: [] }>;

/** Reads the connections of a call into `slots`. Returns the call, with a fault if one is invalid. */
export function checkBatch<C extends BatchCall>(call: C, argv: string[], slots: BatchSlot[]): C {
  if (call.fault === "") call.fault = batchFault(call, argv, slots);
  return call;
}

function batchFault({ values, moreKeys, itemsAt }: BatchCall, argv: string[], slots: BatchSlot[]): string {
  const { proxy, leaseMs } = values;
  if (!isIdentifier(proxy)) return "proxy";
  if (!isWithin(leaseMs, 1, MAX_DURATION_MS)) return "lease_ms";
  const count = (argv.length - itemsAt) / BATCH_ITEM.length;
  if (Math.floor(count) !== count) return "arguments";
  if (count > MAX_BATCH) return "connections";
  const most = moreKeys.length;
  for (let at = itemsAt; at < argv.length; at = at + BATCH_ITEM.length) {
    const connection = argv[at]!;
    const { pod, app, client } = wholeNumbers(argv, at + 1, BATCH_KEYS);
    const clientName = argv[at + 1 + BATCH_KEYS.length]!;
    if (!isIdentifier(connection)) return "connection";
    if (!isWithin(pod, 1, most)) return "pod";
    if (!isWithin(app, 0, most)) return "app";
    if (!isWithin(client, 0, most)) return "client";
    if (client === 0 ? clientName !== "" : !isIdentifier(clientName)) return "client";
    slots.push({
      member: connectionMember(proxy, connection, clientName),
      podKey: moreKeys[pod - 1]!,
      appKey: app === 0 ? "" : moreKeys[app - 1]!,
      clientKey: client === 0 ? "" : moreKeys[client - 1]!,
    });
  }
  return "";
}

/** Removes a connection from all its sets. Returns 1, or 0 if it held no slot. */
export function freeSlot(redis: RedisApi, allKey: string, slot: BatchSlot, clock: SlotClock): number {
  const { member, podKey, appKey, clientKey } = slot;
  const held = storedNumber(redis.call("ZSCORE", podKey, member), 0) > clock.lease ? 1 : 0;
  redis.call("ZREM", podKey, member);
  redis.call("ZREM", allKey, member);
  if (appKey !== "") redis.call("ZREM", appKey, member);
  if (clientKey !== "") redis.call("ZREM", clientKey, member);
  return held;
}
