/**
 * Renews leases when Redis is out of memory: like `slot-renew`, but it extends what exists and creates nothing. Without a
 * clock the store has lost its slots: all leases are lost, and the incarnation is unknown.
 */
import { SLOT_SUCCESS } from "../core/codes.js";
import { storedNumber } from "../core/platform.js";
import {
  advanceSlotClock,
  type BatchSlot,
  checkBatch,
  readSlotClock,
  unusedClientMs,
  unusedMs,
} from "./common/slots.js";
import { invalid, type ReplyOf, readCall } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";
import { SLOT_RENEW } from "./slot-renew.js";

export function slotExtend(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const slots: BatchSlot[] = [];
  const { fault, key, values } = checkBatch(readCall(SLOT_RENEW, keys, argv), argv, slots);
  if (fault !== "") return invalid(fault);
  const { leaseMs } = values;
  const exists = redis.call("EXISTS", key.clock) === 1;
  const clock = exists ? advanceSlotClock(redis, key.clock, leaseMs) : readSlotClock(redis, key.clock, leaseMs);
  const ends = clock.lease + leaseMs * 1000;
  const incarnation = exists ? clock.incarnation : 0;
  const reply: ScriptReply = [SLOT_SUCCESS, 0, incarnation] satisfies ReplyOf<typeof SLOT_RENEW>;
  let renewed = 0;
  for (const { member, podKey, appKey, clientKey } of slots) {
    if (storedNumber(redis.call("ZSCORE", podKey, member), 0) > clock.lease) {
      redis.call("ZADD", podKey, "XX", ends, member);
      redis.call("PEXPIRE", podKey, unusedMs(leaseMs));
      redis.call("ZADD", key.all, "XX", ends, member);
      if (appKey !== "") redis.call("ZADD", appKey, "XX", ends, member);
      if (clientKey !== "") {
        redis.call("ZADD", clientKey, "XX", ends, member);
        redis.call("PEXPIRE", clientKey, unusedClientMs(leaseMs));
      }
      renewed = renewed + 1;
      reply.push(1);
    } else {
      reply.push(0);
    }
  }
  redis.call("PEXPIRE", key.all, unusedMs(leaseMs));
  reply[1] = renewed;
  return reply;
}
