/**
 * Renews the leases of a batch of connections and keeps their proxy alive. An empty batch is a heartbeat.
 *
 * An expired or unknown lease is lost: the connection must acquire a slot again or close.
 * Renewing never restores a slot that others may have taken. When Redis is out of memory, `slot-extend` renews.
 */
import { SLOT_SUCCESS } from "../core/codes.js";
import { storedNumber } from "../core/platform.js";
import {
  advanceSlotClock,
  BATCH,
  BATCH_ITEM,
  type BatchSlot,
  checkBatch,
  unusedClientMs,
  unusedMs,
} from "./common/slots.js";
import { ALWAYS_OK, flag, invalid, operation, type ReplyOf, readCall } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** Of `slot-renew` and `slot-extend`. `incarnation`: of the store. `held`: false for a lost lease. */
export const SLOT_RENEW = operation({
  keys: ["clock", "all", "heartbeat"],
  moreKeys: "pod, app or client",
  arguments: [BATCH],
  itemArguments: [BATCH_ITEM],
  reply: [ALWAYS_OK, "renewed", "incarnation"],
  itemReply: [flag("held")],
});

export function slotRenew(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const slots: BatchSlot[] = [];
  const { fault, key, moreKeys, values } = checkBatch(readCall(SLOT_RENEW, keys, argv), argv, slots);
  if (fault !== "") return invalid(fault);
  const { leaseMs } = values;
  const clock = advanceSlotClock(redis, key.clock, leaseMs);
  redis.call("SET", key.heartbeat, Math.floor(clock.told / 1000), "PX", leaseMs);
  const ends = clock.lease + leaseMs * 1000;
  const reply: ScriptReply = [SLOT_SUCCESS, 0, clock.incarnation] satisfies ReplyOf<typeof SLOT_RENEW>;
  /** How long a key is kept: only keys that a connection with a slot names. */
  const keptMs: Record<string, number> = {};
  let renewed = 0;
  for (const { member, podKey, appKey, clientKey } of slots) {
    if (storedNumber(redis.call("ZSCORE", podKey, member), 0) > clock.lease) {
      redis.call("ZADD", podKey, ends, member);
      redis.call("ZADD", key.all, ends, member);
      keptMs[podKey] = unusedMs(leaseMs);
      if (appKey !== "") {
        redis.call("ZADD", appKey, ends, member);
        keptMs[appKey] = unusedMs(leaseMs);
      }
      if (clientKey !== "") {
        redis.call("ZADD", clientKey, ends, member);
        keptMs[clientKey] = unusedClientMs(leaseMs);
      }
      renewed = renewed + 1;
      reply.push(1);
    } else {
      reply.push(0);
    }
  }
  redis.call("PEXPIRE", key.all, unusedMs(leaseMs));
  for (const name of moreKeys) {
    const ms = keptMs[name];
    if (ms !== undefined) redis.call("PEXPIRE", name, ms);
  }
  reply[1] = renewed;
  return reply;
}
