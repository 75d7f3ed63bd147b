/**
 * Frees the slots of a batch of connections. Frees only, so it runs even when Redis is out of memory.
 *
 * KEYS  1 clock · 2 all connections · 3 released · 4… pods and apps
 * ARGV  1 proxy · 2 lease (ms), then per connection: id · pod and app (index of the key, 1 for KEYS 4; app 0 for none)
 * Reply 1 · number freed · SUCCESS, then per connection: 1, or 0 when it held no slot
 *
 * Releasing twice is harmless. A release is stored for one lease time, so that an acquire of the same connection that
 * arrives later does not take the slot again.
 */
import { SLOT_SUCCESS } from "../core/codes.js";
import { connectionMember } from "../core/keys.js";
import { storedNumber, wholeNumber } from "../core/platform.js";
import { advanceSlotClock, batchFault, FIRST_SLOT, FIXED_KEYS, slotInvalid } from "./common/slots.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function slotRelease(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const fault = batchFault(keys, argv);
  if (fault !== "") return slotInvalid(fault);
  const leaseMs = wholeNumber(argv[1]!);
  const clock = advanceSlotClock(redis, keys[0]!, leaseMs);
  redis.call("ZREMRANGEBYSCORE", keys[2]!, "-inf", clock.lease);
  const reply: ScriptReply = [1, 0, SLOT_SUCCESS];
  let freed = 0;
  for (let i = FIRST_SLOT; i < argv.length; i = i + 3) {
    const member = connectionMember(argv[0]!, argv[i]!);
    const podKey = keys[FIXED_KEYS + wholeNumber(argv[i + 1]!) - 1]!;
    const held = storedNumber(redis.call("ZSCORE", podKey, member), 0) > clock.lease ? 1 : 0;
    redis.call("ZREM", podKey, member);
    redis.call("ZREM", keys[1]!, member);
    const app = wholeNumber(argv[i + 2]!);
    if (app > 0) redis.call("ZREM", keys[FIXED_KEYS + app - 1]!, member);
    redis.call("ZADD", keys[2]!, clock.lease + leaseMs * 1000, member);
    freed = freed + held;
    reply.push(held);
  }
  reply[1] = freed;
  return reply;
}
