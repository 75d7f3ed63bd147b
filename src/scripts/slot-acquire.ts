/**
 * Takes a connection slot on the named pod, or on the least loaded candidate with a free slot.
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
import { isIdentifier, storedNumber } from "../core/platform.js";
import { isWithin, MAX_COUNTER, MAX_DURATION_MS } from "./common/cluster.js";
import { advanceSlotClock, MAX_BATCH, type SlotClock, unusedClientMs, unusedMs } from "./common/slots.js";
import { type Call, flag, invalid, operation, type ReplyOf, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/**
 * Limits of 0 are none. `reclaim`: the connection exists and lost its lease; it needs a free slot but does not count for the rate.
 * `incarnation`: of the store in the last reply, 0 if unknown. `client` is empty if unknown: then it has no limit, and its keys are
 * not used. In the reply, `count` is of the pod, `place` its index among the candidates, -1 for none, and `retryAfterMs` 0 if unknown.
 */
export const SLOT_ACQUIRE = operation({
  keys: ["clock", "all", "released", "rate", "rejected", "app", "client", "clientRate"],
  moreKeys: "pod",
  arguments: [
    [text("proxy"), text("connection"), "leaseMs", "maxPerPod", "maxTotal", "maxPerApp", "burst", "windowMs"],
    [flag("reclaim"), "incarnation", "maxPerClient", "burstPerClient", "clientWindowMs", text("client")],
  ],
  reply: [flag("allowed"), "count", text("code"), "place", "retryAfterMs", "expired", "incarnation"],
});

type Reply = ReplyOf<typeof SLOT_ACQUIRE>;

/** The largest connection limit. */
const MAX_CONNECTIONS = 1000000000;
/** The counter of refusals is kept this long after the last one. */
const REJECTED_MS = 2592000000;

function faultOf({ moreKeys, values }: Call<typeof SLOT_ACQUIRE>): string {
  const { proxy, connection, client } = values;
  if (moreKeys.length === 0 || moreKeys.length > MAX_BATCH) return "pods";
  if (!isIdentifier(proxy)) return "proxy";
  if (!isIdentifier(connection)) return "connection";
  if (client !== "" && !isIdentifier(client)) return "client";
  if (!isWithin(values.leaseMs, 1, MAX_DURATION_MS)) return "lease_ms";
  if (!isWithin(values.maxPerPod, 0, MAX_CONNECTIONS)) return "max_per_pod";
  if (!isWithin(values.maxTotal, 0, MAX_CONNECTIONS)) return "max_total";
  if (!isWithin(values.maxPerApp, 0, MAX_CONNECTIONS)) return "max_per_app";
  if (!isWithin(values.burst, 0, MAX_CONNECTIONS)) return "rate";
  if (!isWithin(values.windowMs, 1, MAX_DURATION_MS)) return "window_ms";
  if (!isWithin(values.reclaim, 0, 1)) return "reclaim";
  if (!isWithin(values.incarnation, 0, MAX_COUNTER)) return "memory";
  if (!isWithin(values.maxPerClient, 0, MAX_CONNECTIONS)) return "max_per_client";
  if (!isWithin(values.burstPerClient, 0, MAX_CONNECTIONS)) return "burst_per_client";
  return isWithin(values.clientWindowMs, 1, MAX_DURATION_MS) ? "" : "client_window_ms";
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
  const call = readCall(SLOT_ACQUIRE, keys, argv);
  const { key, moreKeys: pods, values } = call;
  const fault = call.fault !== "" ? call.fault : faultOf(call);
  if (fault !== "") return invalid(fault);
  const { leaseMs, client, incarnation: known } = values;
  const member = connectionMember(values.proxy, values.connection, client);
  const isRated = values.reclaim === 0 && values.burst > 0;
  const isClientRated = isRated && client !== "" && values.burstPerClient > 0;
  const clock = advanceSlotClock(redis, key.clock, leaseMs);
  const { incarnation } = clock;

  if (known > 0 && known !== incarnation && values.reclaim === 0) {
    return [0, 0, SLOT_FORGOTTEN, -1, 0, 0, incarnation];
  }

  let expired = 0;
  let place = -1;
  let load = 0;
  for (let i = 0; i < pods.length; i++) {
    const pod = pods[i]!;
    expired = expired + redis.call("ZREMRANGEBYSCORE", pod, "-inf", clock.lease);
    const count = redis.call("ZCARD", pod);
    if (redis.call("ZSCORE", pod, member) !== false) {
      return [1, count, SLOT_ALREADY_HELD, i, 0, expired, incarnation] satisfies Reply;
    }
    if (place < 0 || count < load) {
      place = i;
      load = count;
    }
  }

  let code = SLOT_SUCCESS;
  let retryAfterMs = 0;
  const released = storedNumber(redis.call("ZSCORE", key.released, member), 0);
  if (released > clock.lease) {
    code = SLOT_RELEASED;
  } else if (load >= values.maxPerPod) {
    code = SLOT_LIMIT_EXCEEDED;
  } else if (isFull(redis, key.all, values.maxTotal, clock)) {
    code = SLOT_TOTAL_LIMIT_EXCEEDED;
  } else if (isFull(redis, key.app, values.maxPerApp, clock)) {
    code = SLOT_APP_LIMIT_EXCEEDED;
  } else if (client !== "" && isFull(redis, key.client, values.maxPerClient, clock)) {
    code = SLOT_CLIENT_LIMIT_EXCEEDED;
  } else if (isRated) {
    if (isClientRated) {
      retryAfterMs = rateWaitMs(redis, key.clientRate, values.burstPerClient, values.clientWindowMs, clock);
    }
    if (retryAfterMs > 0) {
      code = SLOT_CLIENT_RATE_LIMITED;
    } else {
      retryAfterMs = rateWaitMs(redis, key.rate, values.burst, values.windowMs, clock);
      if (retryAfterMs > 0) code = SLOT_RATE_LIMITED;
    }
  }
  if (code !== SLOT_SUCCESS) {
    redis.call("INCR", key.rejected);
    redis.call("PEXPIRE", key.rejected, REJECTED_MS);
    return [0, load, code, -1, retryAfterMs, expired, incarnation] satisfies Reply;
  }

  const ends = clock.lease + leaseMs * 1000;
  addMember(redis, pods[place]!, member, ends, unusedMs(leaseMs));
  addMember(redis, key.all, member, ends, unusedMs(leaseMs));
  addMember(redis, key.app, member, ends, unusedMs(leaseMs));
  if (client !== "") addMember(redis, key.client, member, ends, unusedClientMs(leaseMs));
  if (isRated) addToRate(redis, key.rate, member, values.windowMs, clock);
  if (isClientRated) addToRate(redis, key.clientRate, member, values.clientWindowMs, clock);
  return [1, load + 1, SLOT_SUCCESS, place, 0, expired, incarnation] satisfies Reply;
}
