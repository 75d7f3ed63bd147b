/**
 * Frees the slots of a batch of connections when Redis is out of memory: like `slot-release`, but it stores nothing.
 *
 * KEYS  1 clock · 2 all connections · 3 released · 4… pods, apps and clients
 * ARGV  as of `slot-release`
 * Reply as of `slot-release`
 *
 * An acquire of the same connection that arrives later, when there is memory again, takes a slot until its lease ends.
 */
import { SLOT_SUCCESS } from "../core/codes.js";
import { wholeNumber } from "../core/platform.js";
import { batchFault, batchSlot, FIRST_SLOT, freeSlot, readSlotClock, SLOT_WIDTH, slotInvalid } from "./common/slots.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function slotFree(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const fault = batchFault(keys, argv);
  if (fault !== "") return slotInvalid(fault);
  const clock = readSlotClock(redis, keys[0]!, wholeNumber(argv[1]!));
  const reply: ScriptReply = [1, 0, SLOT_SUCCESS];
  let freed = 0;
  for (let i = FIRST_SLOT; i < argv.length; i = i + SLOT_WIDTH) {
    const held = freeSlot(redis, keys, batchSlot(argv, keys, i), clock);
    freed = freed + held;
    reply.push(held);
  }
  reply[1] = freed;
  return reply;
}
