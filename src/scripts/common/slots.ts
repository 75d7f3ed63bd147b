/** Connection slots in the store: the clock of their leases, and the arguments that name connections. */
import { SLOT_INVALID_ARGUMENT } from "../../core/codes.js";
import { connectionMember } from "../../core/keys.js";
import { isIdentifier, storedNumber, wholeNumber } from "../../core/platform.js";
import { renewalMs } from "../../core/slot-lease.js";
import type { RedisApi, ScriptReply } from "../redis-api.js";
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

export function slotInvalid(field: string): ScriptReply {
  return [0, 0, SLOT_INVALID_ARGUMENT, field];
}

export function readSlotClock(redis: RedisApi, key: string, leaseMs: number): SlotClock {
  const now = storeTime(redis);
  const fields = redis.call("HMGET", key, "told", "steady", "lease", "memory");
  const elapsed = Math.max(now - storedNumber(fields[0]!, now), 0);
  return {
    incarnation: storedNumber(fields[3]!, now),
    told: now,
    steady: storedNumber(fields[1]!, now) + elapsed,
    lease: storedNumber(fields[2]!, now) + Math.min(elapsed, Math.floor(renewalMs(leaseMs * 1000))),
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

/** Keys of a batch before those of its pods, apps and clients. */
export const FIXED_KEYS = 3;
/** Arguments of a batch before its connections: proxy and lease. */
export const FIRST_SLOT = 2;
/** Arguments of one connection: id, pod, app, client as keys, and the client. */
export const SLOT_WIDTH = 5;

/**
 * The invalid argument of a batch, or an empty text. Each connection has its id, the indexes of the keys of its pod, its app and
 * its client (0 for none), counted from 1 among the keys after the fixed ones, and the client (empty for none).
 */
export function batchFault(keys: string[], argv: string[]): string {
  if (argv.length < FIRST_SLOT) return "arguments";
  if (!isIdentifier(argv[0]!)) return "proxy";
  if (!isWithin(wholeNumber(argv[1]!), 1, MAX_DURATION_MS)) return "lease_ms";
  if (keys.length < FIXED_KEYS) return "keys";
  const count = (argv.length - FIRST_SLOT) / SLOT_WIDTH;
  if (Math.floor(count) !== count) return "arguments";
  if (count > MAX_BATCH) return "connections";
  const named = keys.length - FIXED_KEYS;
  for (let i = FIRST_SLOT; i < argv.length; i = i + SLOT_WIDTH) {
    if (!isIdentifier(argv[i]!)) return "connection";
    if (!isWithin(wholeNumber(argv[i + 1]!), 1, named)) return "pod";
    if (!isWithin(wholeNumber(argv[i + 2]!), 0, named)) return "app";
    const client = wholeNumber(argv[i + 3]!);
    if (!isWithin(client, 0, named)) return "client";
    if (client === 0 ? argv[i + 4]! !== "" : !isIdentifier(argv[i + 4]!)) return "client";
  }
  return "";
}

/** A connection of a batch. */
export interface BatchSlot {
  member: string;
  podKey: string;
  /** Index of the key among all keys; -1 for none. */
  pod: number;
  app: number;
  client: number;
}

/** The connection whose arguments begin at `at`, in a batch without fault. */
export function batchSlot(argv: string[], keys: string[], at: number): BatchSlot {
  const pod = FIXED_KEYS + wholeNumber(argv[at + 1]!) - 1;
  const app = wholeNumber(argv[at + 2]!);
  const client = wholeNumber(argv[at + 3]!);
  return {
    member: connectionMember(argv[0]!, argv[at]!, argv[at + 4]!),
    podKey: keys[pod]!,
    pod,
    app: app === 0 ? -1 : FIXED_KEYS + app - 1,
    client: client === 0 ? -1 : FIXED_KEYS + client - 1,
  };
}

/** Removes a connection from all its sets. Returns 1, or 0 if it held no slot. */
export function freeSlot(redis: RedisApi, keys: string[], slot: BatchSlot, clock: SlotClock): number {
  const { member, podKey, app, client } = slot;
  const held = storedNumber(redis.call("ZSCORE", podKey, member), 0) > clock.lease ? 1 : 0;
  redis.call("ZREM", podKey, member);
  redis.call("ZREM", keys[1]!, member);
  if (app >= 0) redis.call("ZREM", keys[app]!, member);
  if (client >= 0) redis.call("ZREM", keys[client]!, member);
  return held;
}
