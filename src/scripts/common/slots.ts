/** Connection slots in the store: the clock of their leases, and the arguments that name connections. */
import { SLOT_INVALID_ARGUMENT } from "../../core/codes.js";
import { isIdentifier, storedNumber, wholeNumber } from "../../core/platform.js";
import { renewalMs } from "../../core/slot-lease.js";
import type { RedisApi, ScriptReply } from "../redis-api.js";
import { isWithin, MAX_DURATION_MS, storeTime } from "./cluster.js";

/** Maximum number of connections per call. */
export const MAX_BATCH = 500;

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
  return clock;
}

/** Keys of a batch before those of its pods and apps. */
export const FIXED_KEYS = 3;
/** Arguments of a batch before its connections: proxy and lease. */
export const FIRST_SLOT = 2;

/**
 * The invalid argument of a batch, or an empty text. Each connection has its id, the index of its pod's key and that of its
 * app's key (0 for none), counted from 1 among the keys after the fixed ones.
 */
export function batchFault(keys: string[], argv: string[]): string {
  if (argv.length < FIRST_SLOT) return "arguments";
  if (!isIdentifier(argv[0]!)) return "proxy";
  if (!isWithin(wholeNumber(argv[1]!), 1, MAX_DURATION_MS)) return "lease_ms";
  if (keys.length < FIXED_KEYS) return "keys";
  const count = (argv.length - FIRST_SLOT) / 3;
  if (Math.floor(count) !== count) return "arguments";
  if (count > MAX_BATCH) return "connections";
  const named = keys.length - FIXED_KEYS;
  for (let i = FIRST_SLOT; i < argv.length; i = i + 3) {
    if (!isIdentifier(argv[i]!)) return "connection";
    if (!isWithin(wholeNumber(argv[i + 1]!), 1, named)) return "pod";
    if (!isWithin(wholeNumber(argv[i + 2]!), 0, named)) return "app";
  }
  return "";
}
