/**
 * Frees the slots of a batch of connections.
 *
 * KEYS  1 clock · 2 all connections · 3 released · 4… pods, apps and clients
 * ARGV  1 proxy · 2 lease (ms), then per connection: id · pod, app and client (index of the key, 1 for KEYS 4; app and client 0
 *       for none) · client (empty for none)
 * Reply 1 · number freed · SUCCESS, then per connection: 1, or 0 when it held no slot
 *
 * Releasing twice is harmless. A release is stored for one lease time, so that an acquire of the same connection that
 * arrives later does not take the slot again. That needs memory: when Redis has none, `slot-free` frees the slots. Of
 * connections that held none, only so many are stored.
 */
import { SLOT_SUCCESS } from "../core/codes.js";
import { wholeNumber } from "../core/platform.js";
import {
  advanceSlotClock,
  batchFault,
  batchSlot,
  FIRST_SLOT,
  freeSlot,
  SLOT_WIDTH,
  slotInvalid,
  unusedMs,
} from "./common/slots.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** Stored releases at which those of connections without a slot are no longer stored: a data plane can invent any number. */
const MOST_RELEASED = 10000;
/** Its position among the keys. */
const RELEASED = 2;

export function slotRelease(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const fault = batchFault(keys, argv);
  if (fault !== "") return slotInvalid(fault);
  const leaseMs = wholeNumber(argv[1]!);
  const clock = advanceSlotClock(redis, keys[0]!, leaseMs);
  redis.call("ZREMRANGEBYSCORE", keys[RELEASED]!, "-inf", clock.lease);
  const reply: ScriptReply = [1, 0, SLOT_SUCCESS];
  let freed = 0;
  for (let i = FIRST_SLOT; i < argv.length; i = i + SLOT_WIDTH) {
    const slot = batchSlot(argv, keys, i);
    const held = freeSlot(redis, keys, slot, clock);
    if (held === 1 || redis.call("ZCARD", keys[RELEASED]!) < MOST_RELEASED) {
      redis.call("ZADD", keys[RELEASED]!, clock.lease + leaseMs * 1000, slot.member);
    }
    freed = freed + held;
    reply.push(held);
  }
  redis.call("PEXPIRE", keys[RELEASED]!, unusedMs(leaseMs));
  reply[1] = freed;
  return reply;
}
