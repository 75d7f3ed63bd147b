/**
 * Renews the leases of a batch of connections and keeps their proxy alive. An empty batch is a heartbeat.
 *
 * KEYS  1 clock · 2 all connections · 3 heartbeat of the proxy · 4… pods, apps and clients
 * ARGV  1 proxy · 2 lease (ms), then per connection: id · pod, app and client (index of the key, 1 for KEYS 4; app and client 0
 *       for none) · client (empty for none)
 * Reply 1 · number renewed · SUCCESS · store incarnation, then per connection: 1, or 0 for a lost lease
 *
 * An expired or unknown lease is lost: the connection must acquire a slot again or close.
 * Renewing never restores a slot that others may have taken. When Redis is out of memory, `slot-extend` renews.
 */
import { SLOT_SUCCESS } from "../core/codes.js";
import { storedNumber, wholeNumber } from "../core/platform.js";
import {
  advanceSlotClock,
  batchFault,
  batchSlot,
  FIRST_SLOT,
  SLOT_WIDTH,
  slotInvalid,
  unusedClientMs,
  unusedMs,
} from "./common/slots.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** Its position among the keys. */
const HEARTBEAT = 2;

export function slotRenew(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const fault = batchFault(keys, argv);
  if (fault !== "") return slotInvalid(fault);
  const leaseMs = wholeNumber(argv[1]!);
  const clock = advanceSlotClock(redis, keys[0]!, leaseMs);
  redis.call("SET", keys[HEARTBEAT]!, Math.floor(clock.told / 1000), "PX", leaseMs);
  const ends = clock.lease + leaseMs * 1000;
  const reply: ScriptReply = [1, 0, SLOT_SUCCESS, clock.incarnation];
  /** How long each key is kept; 0: as before, because no connection that holds a slot names it. */
  const keptMs: number[] = [];
  for (let i = 0; i < keys.length; i++) keptMs[i] = 0;
  keptMs[1] = unusedMs(leaseMs);
  let renewed = 0;
  for (let i = FIRST_SLOT; i < argv.length; i = i + SLOT_WIDTH) {
    const { member, podKey, pod, app, client } = batchSlot(argv, keys, i);
    if (storedNumber(redis.call("ZSCORE", podKey, member), 0) > clock.lease) {
      redis.call("ZADD", podKey, ends, member);
      redis.call("ZADD", keys[1]!, ends, member);
      keptMs[pod] = unusedMs(leaseMs);
      if (app >= 0) {
        redis.call("ZADD", keys[app]!, ends, member);
        keptMs[app] = unusedMs(leaseMs);
      }
      if (client >= 0) {
        redis.call("ZADD", keys[client]!, ends, member);
        keptMs[client] = unusedClientMs(leaseMs);
      }
      renewed = renewed + 1;
      reply.push(1);
    } else {
      reply.push(0);
    }
  }
  for (let i = 0; i < keys.length; i++) if (keptMs[i]! > 0) redis.call("PEXPIRE", keys[i]!, keptMs[i]!);
  reply[1] = renewed;
  return reply;
}
