/**
 * Counts all connections, and those on each named pod, without expired leases. Changes nothing.
 *
 * KEYS  1 clock · 2 all connections · 3 rejected · 4… pods
 * ARGV  1 lease (ms)
 * Reply 1 · connections in all · SUCCESS · attempts refused so far, then the connections of each pod
 */
import { SLOT_SUCCESS } from "../core/codes.js";
import { storedNumber, wholeNumber } from "../core/platform.js";
import { isWithin, MAX_DURATION_MS } from "./common/cluster.js";
import { readSlotClock, slotInvalid } from "./common/slots.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const FIRST_POD = 3;

export function slotCounts(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length < FIRST_POD) return slotInvalid("keys");
  if (argv.length !== 1) return slotInvalid("arguments");
  const leaseMs = wholeNumber(argv[0]!);
  if (!isWithin(leaseMs, 1, MAX_DURATION_MS)) return slotInvalid("lease_ms");
  const clock = readSlotClock(redis, keys[0]!, leaseMs);
  const alive = clock.lease + 1;
  const rejected = storedNumber(redis.call("GET", keys[2]!), 0);
  const reply: ScriptReply = [1, redis.call("ZCOUNT", keys[1]!, alive, "+inf"), SLOT_SUCCESS, rejected];
  for (let i = FIRST_POD; i < keys.length; i++) reply.push(redis.call("ZCOUNT", keys[i]!, alive, "+inf"));
  return reply;
}
