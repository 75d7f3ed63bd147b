/**
 * Takes a connection slot on the named pod, or on the least loaded candidate with a free slot.
 *
 * KEYS  1 clock · 2 all connections · 3 released · 4 rate · 5 rejected · 6 connections of the app · 7 connections of the client
 *       8 rate of the client · 9… pods
 * ARGV  1 proxy · 2 connection · 3 lease (ms) · 4 limit per pod · 5 in total (0: no limit) · 6 per app (0: no limit)
 *       7 new connections per window (0: no limit) · 8 window (ms)
 *       9 reclaim (1: the connection exists and lost its lease; it needs a free slot but does not count for the rate)
 *       10 store incarnation of the last reply (0: unknown) · 11 limit per client (0: no limit)
 *       12 new connections per client in its window (0: no limit) · 13 window of the client (ms)
 *       14 client (empty: unknown; then it has no limit, and KEYS 7 and 8 are not used)
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
  SLOT_CLIENT_LIMIT_EXCEEDED,
  SLOT_CLIENT_RATE_LIMITED,
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
import { advanceSlotClock, MAX_BATCH, type SlotClock, slotInvalid, unusedClientMs, unusedMs } from "./common/slots.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const FIRST_POD = 8;
/** The largest connection limit. */
const MAX_CONNECTIONS = 1000000000;
/** The counter of refusals is kept this long after the last one. */
const REJECTED_MS = 2592000000;

/** Positions of the numbers, which follow proxy and connection. */
const LEASE_MS = 0;
const MOST_PER_POD = 1;
const MOST_IN_ALL = 2;
const MOST_PER_APP = 3;
const RATE = 4;
const WINDOW_MS = 5;
const RECLAIM = 6;
const INCARNATION = 7;
const MOST_PER_CLIENT = 8;
const CLIENT_RATE = 9;
const CLIENT_WINDOW_MS = 10;
const NUMBERS = 11;
/** The position of the client, which follows the numbers. */
const CLIENT = 2 + NUMBERS;

function numbersFault(numbers: number[]): string {
  if (!isWithin(numbers[LEASE_MS]!, 1, MAX_DURATION_MS)) return "lease_ms";
  if (!isWithin(numbers[MOST_PER_POD]!, 0, MAX_CONNECTIONS)) return "max_per_pod";
  if (!isWithin(numbers[MOST_IN_ALL]!, 0, MAX_CONNECTIONS)) return "max_total";
  if (!isWithin(numbers[MOST_PER_APP]!, 0, MAX_CONNECTIONS)) return "max_per_app";
  if (!isWithin(numbers[RATE]!, 0, MAX_CONNECTIONS)) return "rate";
  if (!isWithin(numbers[WINDOW_MS]!, 1, MAX_DURATION_MS)) return "window_ms";
  if (!isWithin(numbers[RECLAIM]!, 0, 1)) return "reclaim";
  if (!isWithin(numbers[INCARNATION]!, 0, MAX_COUNTER)) return "memory";
  if (!isWithin(numbers[MOST_PER_CLIENT]!, 0, MAX_CONNECTIONS)) return "max_per_client";
  if (!isWithin(numbers[CLIENT_RATE]!, 0, MAX_CONNECTIONS)) return "burst_per_client";
  return isWithin(numbers[CLIENT_WINDOW_MS]!, 1, MAX_DURATION_MS) ? "" : "client_window_ms";
}

/** Milliseconds until the rate admits another connection; 0 for now. Removes entries that have left the window. */
function rateWaitMs(redis: RedisApi, key: string, most: number, windowMs: number, clock: SlotClock): number {
  const window = windowMs * 1000;
  redis.call("ZREMRANGEBYSCORE", key, "-inf", clock.steady - window);
  if (redis.call("ZCARD", key) < most) return 0;
  const oldest = redis.call("ZRANGE", key, 0, 0, "WITHSCORES");
  const leaves = storedNumber(oldest[1]!, clock.steady) + window;
  return Math.max(Math.ceil((leaves - clock.steady) / 1000), 1);
}

/** True when the limit is reached; 0 means no limit. Removes expired leases. */
function isFull(redis: RedisApi, key: string, most: number, clock: SlotClock): boolean {
  redis.call("ZREMRANGEBYSCORE", key, "-inf", clock.lease);
  return most > 0 && redis.call("ZCARD", key) >= most;
}

function addMember(redis: RedisApi, key: string, member: string, ends: number, keptMs: number): void {
  redis.call("ZADD", key, ends, member);
  redis.call("PEXPIRE", key, keptMs);
}

/** Counts a new connection in a window. */
function addToRate(redis: RedisApi, key: string, member: string, windowMs: number, clock: SlotClock): void {
  redis.call("ZADD", key, clock.steady, member);
  redis.call("PEXPIRE", key, windowMs + MICRO / 1000);
}

export function slotAcquire(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length <= FIRST_POD || keys.length > FIRST_POD + MAX_BATCH) return slotInvalid("pods");
  if (argv.length !== CLIENT + 1) return slotInvalid("arguments");
  if (!isIdentifier(argv[0]!)) return slotInvalid("proxy");
  if (!isIdentifier(argv[1]!)) return slotInvalid("connection");
  const client = argv[CLIENT]!;
  if (client !== "" && !isIdentifier(client)) return slotInvalid("client");
  const numbers = wholeNumbers(argv, 2, NUMBERS);
  const fault = numbersFault(numbers);
  if (fault !== "") return slotInvalid(fault);
  const member = connectionMember(argv[0]!, argv[1]!, client);
  const leaseMs = numbers[LEASE_MS]!;
  const isRated = numbers[RECLAIM] === 0 && numbers[RATE]! > 0;
  const isClientRated = isRated && client !== "" && numbers[CLIENT_RATE]! > 0;
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
  } else if (client !== "" && isFull(redis, keys[6]!, numbers[MOST_PER_CLIENT]!, clock)) {
    code = SLOT_CLIENT_LIMIT_EXCEEDED;
  } else if (isRated) {
    if (isClientRated) {
      retryAfterMs = rateWaitMs(redis, keys[7]!, numbers[CLIENT_RATE]!, numbers[CLIENT_WINDOW_MS]!, clock);
    }
    if (retryAfterMs > 0) {
      code = SLOT_CLIENT_RATE_LIMITED;
    } else {
      retryAfterMs = rateWaitMs(redis, keys[3]!, numbers[RATE]!, numbers[WINDOW_MS]!, clock);
      if (retryAfterMs > 0) code = SLOT_RATE_LIMITED;
    }
  }
  if (code !== SLOT_SUCCESS) {
    redis.call("INCR", keys[4]!);
    redis.call("PEXPIRE", keys[4]!, REJECTED_MS);
    return [0, load, code, -1, retryAfterMs, dropped, clock.incarnation];
  }

  const ends = clock.lease + leaseMs * 1000;
  addMember(redis, keys[FIRST_POD + place]!, member, ends, unusedMs(leaseMs));
  addMember(redis, keys[1]!, member, ends, unusedMs(leaseMs));
  addMember(redis, keys[5]!, member, ends, unusedMs(leaseMs));
  if (client !== "") addMember(redis, keys[6]!, member, ends, unusedClientMs(leaseMs));
  if (isRated) addToRate(redis, keys[3]!, member, numbers[WINDOW_MS]!, clock);
  if (isClientRated) addToRate(redis, keys[7]!, member, numbers[CLIENT_WINDOW_MS]!, clock);
  return [1, load + 1, SLOT_SUCCESS, place, 0, dropped, clock.incarnation];
}
