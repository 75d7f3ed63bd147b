/**
 * `slot-renew` renews the leases of a batch of connections and keeps their proxy alive. An empty batch is a heartbeat.
 *
 * An expired or unknown lease is lost: the connection must acquire a slot again or close.
 * Renewing never restores a slot that others may have taken.
 *
 * That needs memory. `slot-extend` renews when Redis has none: it extends what exists and creates nothing. Without a clock the
 * store has lost its slots: all leases are lost, and the incarnation is unknown.
 */
import { SLOT_SUCCESS } from "../core/codes.js";
import { storedNumber } from "../core/platform.js";
import {
  advanceSlotClock,
  BATCH,
  BATCH_ITEM,
  type BatchSlot,
  checkBatch,
  readSlotClock,
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
  return renew(redis, keys, argv, true);
}

export function slotExtend(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  return renew(redis, keys, argv, false);
}

function renew(redis: RedisApi, keys: string[], argv: string[], creates: boolean): ScriptReply {
  const slots: BatchSlot[] = [];
  const { fault, key, moreKeys, values } = checkBatch(readCall(SLOT_RENEW, keys, argv), argv, slots);
  if (fault !== "") return invalid(fault);
  const { leaseMs } = values;
  const exists = creates || redis.call("EXISTS", key.clock) === 1;
  const clock = exists ? advanceSlotClock(redis, key.clock, leaseMs) : readSlotClock(redis, key.clock, leaseMs);
  if (creates) redis.call("SET", key.heartbeat, Math.floor(clock.told / 1000), "PX", leaseMs);
  const ends = clock.lease + leaseMs * 1000;
  const incarnation = exists ? clock.incarnation : 0;
  const reply: ScriptReply = [SLOT_SUCCESS, 0, incarnation] satisfies ReplyOf<typeof SLOT_RENEW>;
  /** How long a key is kept: only keys that a connection with a slot names. */
  const keptMs: Record<string, number> = {};
  let renewed = 0;
  for (const { member, podKey, appKey, clientKey } of slots) {
    if (storedNumber(redis.call("ZSCORE", podKey, member), 0) > clock.lease) {
      setEnd(redis, podKey, ends, member, creates);
      setEnd(redis, key.all, ends, member, creates);
      keptMs[podKey] = unusedMs(leaseMs);
      if (appKey !== "") {
        setEnd(redis, appKey, ends, member, creates);
        keptMs[appKey] = unusedMs(leaseMs);
      }
      if (clientKey !== "") {
        setEnd(redis, clientKey, ends, member, creates);
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

function setEnd(redis: RedisApi, key: string, ends: number, member: string, creates: boolean): void {
  if (creates) redis.call("ZADD", key, ends, member);
  else redis.call("ZADD", key, "XX", ends, member);
}
