/**
 * Renews leases when Redis is out of memory: like `slot-renew`, but it extends what exists and creates nothing. Without a
 * clock the store has lost its slots: all leases are lost, and the incarnation is unknown.
 *
 * KEYS  1 clock · 2 all connections · 3 heartbeat of the proxy · 4… pods, apps and clients
 * ARGV  as of `slot-renew`
 * Reply as of `slot-renew`; store incarnation 0: unknown
 */
import { SLOT_SUCCESS } from "../core/codes.js";
import { storedNumber, wholeNumber } from "../core/platform.js";
import {
  advanceSlotClock,
  batchFault,
  batchSlot,
  FIRST_SLOT,
  readSlotClock,
  SLOT_WIDTH,
  slotInvalid,
  unusedClientMs,
  unusedMs,
} from "./common/slots.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function slotExtend(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const fault = batchFault(keys, argv);
  if (fault !== "") return slotInvalid(fault);
  const leaseMs = wholeNumber(argv[1]!);
  const exists = redis.call("EXISTS", keys[0]!) === 1;
  const clock = exists ? advanceSlotClock(redis, keys[0]!, leaseMs) : readSlotClock(redis, keys[0]!, leaseMs);
  const ends = clock.lease + leaseMs * 1000;
  const reply: ScriptReply = [1, 0, SLOT_SUCCESS, exists ? clock.incarnation : 0];
  let renewed = 0;
  for (let i = FIRST_SLOT; i < argv.length; i = i + SLOT_WIDTH) {
    const { member, podKey, app, client } = batchSlot(argv, keys, i);
    if (storedNumber(redis.call("ZSCORE", podKey, member), 0) > clock.lease) {
      redis.call("ZADD", podKey, "XX", ends, member);
      redis.call("PEXPIRE", podKey, unusedMs(leaseMs));
      redis.call("ZADD", keys[1]!, "XX", ends, member);
      if (app >= 0) redis.call("ZADD", keys[app]!, "XX", ends, member);
      if (client >= 0) {
        redis.call("ZADD", keys[client]!, "XX", ends, member);
        redis.call("PEXPIRE", keys[client]!, unusedClientMs(leaseMs));
      }
      renewed = renewed + 1;
      reply.push(1);
    } else {
      reply.push(0);
    }
  }
  redis.call("PEXPIRE", keys[1]!, unusedMs(leaseMs));
  reply[1] = renewed;
  return reply;
}
