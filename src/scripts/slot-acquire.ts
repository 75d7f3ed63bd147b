/**
 * Takes a connection slot on the named pod, or on the least loaded candidate with a free slot.
 *
 * KEYS  1 clock · 2 all connections · 3 released · 4 rate · 5 rejected · 6 connections of the app · 7… pods
 * ARGV  1 proxy · 2 connection · 3 lease (ms) · 4 limit per pod · 5 in total (0: no limit) · 6 per app (0: no limit)
 *       7 new connections per window (0: no limit) · 8 window (ms)
 *       9 reclaim (1: the connection exists and lost its lease; it needs a free slot but does not count for the rate)
 *       10 store incarnation of the last reply (0: unknown)
 * Reply allowed (0 or 1) · connections on the pod · code · pod (index among the candidates; -1 for none)
 *       retry after (ms; 0 when unknown) · expired leases that were removed · store incarnation
 *
 * A refused attempt uses up no limit. A repeated acquire is told that it holds its slot already. A released connection
 * stays released, however late its acquire arrives. Among candidates with equal load the first one is taken: the caller
 * rotates the list. If a retry names other candidates than the first attempt, the first slot stays until its lease ends.
 *
 * If the caller knows another incarnation, the reply is FORGOTTEN: the store has lost connections that still exist, and
 * a new one would take their slots. A reclaiming connection is admitted all the same.
 */
import { MICRO } from "../core/bucket.js";
import {
  SLOT_ALREADY_HELD,
  SLOT_APP_LIMIT_EXCEEDED,
  SLOT_FORGOTTEN,
  SLOT_LIMIT_EXCEEDED,
  SLOT_RATE_LIMITED,
  SLOT_RELEASED,
  SLOT_SUCCESS,
  SLOT_TOTAL_LIMIT_EXCEEDED,
} from "../core/codes.js";
import { connectionMember } from "../core/keys.js";
import { isIdentifier, storedNumber, wholeNumbers } from "../core/platform.js";
import { isWithin, MAX_COUNTER, MAX_DURATION_MS } from "./common/cluster.js";
import { advanceSlotClock, MAX_BATCH, type SlotClock, slotInvalid } from "./common/slots.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const FIRST_POD = 6;
/** The largest connection limit. */
const MAX_CONNECTIONS = 1000000000;

/** Positions of the numbers, which follow proxy and connection. */
const LEASE_MS = 0;
const MOST_PER_POD = 1;
const MOST_IN_ALL = 2;
const MOST_PER_APP = 3;
const RATE = 4;
const WINDOW_MS = 5;
const RECLAIM = 6;
const INCARNATION = 7;
const NUMBERS = 8;

function numbersFault(numbers: number[]): string {
  if (!isWithin(numbers[LEASE_MS]!, 1, MAX_DURATION_MS)) return "lease_ms";
  if (!isWithin(numbers[MOST_PER_POD]!, 0, MAX_CONNECTIONS)) return "max_per_pod";
  if (!isWithin(numbers[MOST_IN_ALL]!, 0, MAX_CONNECTIONS)) return "max_total";
  if (!isWithin(numbers[MOST_PER_APP]!, 0, MAX_CONNECTIONS)) return "max_per_app";
  if (!isWithin(numbers[RATE]!, 0, MAX_CONNECTIONS)) return "rate";
  if (!isWithin(numbers[WINDOW_MS]!, 1, MAX_DURATION_MS)) return "window_ms";
  if (!isWithin(numbers[RECLAIM]!, 0, 1)) return "reclaim";
  return isWithin(numbers[INCARNATION]!, 0, MAX_COUNTER) ? "" : "memory";
}

/** Milliseconds until the rate admits another connection; 0 for now. Removes entries that have left the window. */
function rateWaitMs(redis: RedisApi, key: string, numbers: number[], clock: SlotClock): number {
  const window = numbers[WINDOW_MS]! * 1000;
  redis.call("ZREMRANGEBYSCORE", key, "-inf", clock.steady - window);
  if (redis.call("ZCARD", key) < numbers[RATE]!) return 0;
  const oldest = redis.call("ZRANGE", key, 0, 0, "WITHSCORES");
  const leaves = storedNumber(oldest[1]!, clock.steady) + window;
  return Math.max(Math.ceil((leaves - clock.steady) / 1000), 1);
}

/** True when the limit is reached; 0 means no limit. Removes expired leases. */
function isFull(redis: RedisApi, key: string, most: number, clock: SlotClock): boolean {
  redis.call("ZREMRANGEBYSCORE", key, "-inf", clock.lease);
  return most > 0 && redis.call("ZCARD", key) >= most;
}

export function slotAcquire(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length <= FIRST_POD || keys.length > FIRST_POD + MAX_BATCH) return slotInvalid("pods");
  if (argv.length !== 2 + NUMBERS) return slotInvalid("arguments");
  if (!isIdentifier(argv[0]!)) return slotInvalid("proxy");
  if (!isIdentifier(argv[1]!)) return slotInvalid("connection");
  const numbers = wholeNumbers(argv, 2, NUMBERS);
  const fault = numbersFault(numbers);
  if (fault !== "") return slotInvalid(fault);
  const member = connectionMember(argv[0]!, argv[1]!);
  const leaseMs = numbers[LEASE_MS]!;
  const isRated = numbers[RECLAIM] === 0 && numbers[RATE]! > 0;
  const clock = advanceSlotClock(redis, keys[0]!, leaseMs);

  const known = numbers[INCARNATION]!;
  if (known > 0 && known !== clock.incarnation && numbers[RECLAIM] === 0) {
    return [0, 0, SLOT_FORGOTTEN, -1, 0, 0, clock.incarnation];
  }

  let dropped = 0;
  let place = -1;
  let load = 0;
  for (let i = FIRST_POD; i < keys.length; i++) {
    const key = keys[i]!;
    dropped = dropped + redis.call("ZREMRANGEBYSCORE", key, "-inf", clock.lease);
    const count = redis.call("ZCARD", key);
    if (redis.call("ZSCORE", key, member) !== false) {
      return [1, count, SLOT_ALREADY_HELD, i - FIRST_POD, 0, dropped, clock.incarnation];
    }
    if (place < 0 || count < load) {
      place = i - FIRST_POD;
      load = count;
    }
  }

  let code = SLOT_SUCCESS;
  let retryAfterMs = 0;
  const released = storedNumber(redis.call("ZSCORE", keys[2]!, member), 0);
  if (released > clock.lease) {
    code = SLOT_RELEASED;
  } else if (load >= numbers[MOST_PER_POD]!) {
    code = SLOT_LIMIT_EXCEEDED;
  } else if (isFull(redis, keys[1]!, numbers[MOST_IN_ALL]!, clock)) {
    code = SLOT_TOTAL_LIMIT_EXCEEDED;
  } else if (isFull(redis, keys[5]!, numbers[MOST_PER_APP]!, clock)) {
    code = SLOT_APP_LIMIT_EXCEEDED;
  } else if (isRated) {
    retryAfterMs = rateWaitMs(redis, keys[3]!, numbers, clock);
    if (retryAfterMs > 0) code = SLOT_RATE_LIMITED;
  }
  if (code !== SLOT_SUCCESS) {
    redis.call("INCR", keys[4]!);
    return [0, load, code, -1, retryAfterMs, dropped, clock.incarnation];
  }

  const ends = clock.lease + leaseMs * 1000;
  redis.call("ZADD", keys[FIRST_POD + place]!, ends, member);
  redis.call("ZADD", keys[1]!, ends, member);
  redis.call("ZADD", keys[5]!, ends, member);
  if (isRated) {
    redis.call("ZADD", keys[3]!, clock.steady, member);
    redis.call("PEXPIRE", keys[3]!, numbers[WINDOW_MS]! + MICRO / 1000);
  }
  return [1, load + 1, SLOT_SUCCESS, place, 0, dropped, clock.incarnation];
}
