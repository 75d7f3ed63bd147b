/**
 * `slot-release` frees the slots of a batch of connections. Releasing twice is harmless. A release is stored for one lease time, so
 * that an acquire of the same connection that arrives later does not take the slot again. Of connections that held none, only so
 * many are stored.
 *
 * That needs memory. `slot-free` frees the slots when Redis has none, and stores nothing: an acquire of the same connection that
 * arrives later, when there is memory again, takes a slot until its lease ends.
 */
import { SLOT_SUCCESS } from "../core/codes.js";
import {
  advanceSlotClock,
  BATCH,
  BATCH_ITEM,
  type BatchSlot,
  checkBatch,
  freeSlot,
  readSlotClock,
  unusedMs,
} from "./common/slots.js";
import { ALWAYS_OK, flag, invalid, operation, type ReplyOf, readCall } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** Of `slot-release` and `slot-free`. `held`: whether the connection held a slot. */
export const SLOT_RELEASE = operation({
  keys: ["clock", "all", "released"],
  moreKeys: "pod, app or client",
  arguments: [BATCH],
  itemArguments: [BATCH_ITEM],
  reply: [ALWAYS_OK, "released"],
  itemReply: [flag("held")],
});

/** Stored releases at which those of connections without a slot are no longer stored: a data plane can invent any number. */
const MOST_RELEASED = 10000;

export function slotRelease(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  return release(redis, keys, argv, true);
}

export function slotFree(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  return release(redis, keys, argv, false);
}

function release(redis: RedisApi, keys: string[], argv: string[], isStored: boolean): ScriptReply {
  const slots: BatchSlot[] = [];
  const { fault, key, values } = checkBatch(readCall(SLOT_RELEASE, keys, argv), argv, slots);
  if (fault !== "") return invalid(fault);
  const { leaseMs } = values;
  const clock = isStored ? advanceSlotClock(redis, key.clock, leaseMs) : readSlotClock(redis, key.clock, leaseMs);
  if (isStored) redis.call("ZREMRANGEBYSCORE", key.released, "-inf", clock.lease);
  const reply: ScriptReply = [SLOT_SUCCESS, 0] satisfies ReplyOf<typeof SLOT_RELEASE>;
  let freed = 0;
  for (const slot of slots) {
    const held = freeSlot(redis, key.all, slot, clock);
    if (isStored && (held === 1 || redis.call("ZCARD", key.released) < MOST_RELEASED)) {
      redis.call("ZADD", key.released, clock.lease + leaseMs * 1000, slot.member);
    }
    freed = freed + held;
    reply.push(held);
  }
  if (isStored) redis.call("PEXPIRE", key.released, unusedMs(leaseMs));
  reply[1] = freed;
  return reply;
}
