/** Connection slots in the store: the clock of their leases, and the arguments that name connections. */
import { SLOT_INVALID_ARGUMENT } from "../../core/codes.js";
import { isIdentifier, storedNumber, wholeNumber } from "../../core/platform.js";
import { renewalMs } from "../../core/slot-lease.js";
import type { RedisApi, ScriptReply } from "../redis-api.js";
import { isWithin, storeTime } from "./cluster.js";

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

export function writeSlotClock(redis: RedisApi, key: string, clock: SlotClock): void {
  redis.call(
    "HSET",
    key,
    "told",
    clock.told,
    "steady",
    clock.steady,
    "lease",
    clock.lease,
    "memory",
    clock.incarnation,
  );
}

/**
 * The invalid argument of a batch, or an empty text. From `from` on, each connection has its id, the index of its pod's
 * key and that of its app's key (0 for none), counted from 1 among the keys after `fixedKeys`.
 */
export function batchFault(keys: string[], argv: string[], from: number, fixedKeys: number): string {
  if (keys.length < fixedKeys) return "keys";
  const count = (argv.length - from) / 3;
  if (count < 0 || Math.floor(count) !== count) return "arguments";
  if (count > MAX_BATCH) return "connections";
  const named = keys.length - fixedKeys;
  for (let i = 0; i < count; i++) {
    if (!isIdentifier(argv[from + i * 3]!)) return "connection";
    if (!isWithin(wholeNumber(argv[from + i * 3 + 1]!), 1, named)) return "pod";
    if (!isWithin(wholeNumber(argv[from + i * 3 + 2]!), 0, named)) return "app";
  }
  return "";
}
