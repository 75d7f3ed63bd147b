/**
 * Renews the leases of a batch of connections and keeps their proxy alive. An empty batch is a heartbeat.
 * Takes no new slots, so it runs even when Redis is out of memory.
 *
 * KEYS  1 clock · 2 all connections · 3 heartbeat of the proxy · 4… pods and apps
 * ARGV  1 proxy · 2 lease (ms), then per connection: id · pod and app (index of the key, 1 for KEYS 4; app 0 for none)
 * Reply 1 · number renewed · SUCCESS · store incarnation, then per connection: 1, or 0 for a lost lease
 *
 * An expired or unknown lease is lost: the connection must acquire a slot again or close.
 * Renewing never restores a slot that others may have taken.
 */
import { SLOT_SUCCESS } from "../core/codes.js";
import { connectionMember } from "../core/keys.js";
import { storedNumber, wholeNumber } from "../core/platform.js";
import { advanceSlotClock, batchFault, FIRST_SLOT, FIXED_KEYS, slotInvalid } from "./common/slots.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** Keys of routes, pods and apps that are no longer used expire after a day. */
const DAY_MS = 86400000;
/** Its position among the keys. */
const HEARTBEAT = 2;

export function slotRenew(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const fault = batchFault(keys, argv);
  if (fault !== "") return slotInvalid(fault);
  const leaseMs = wholeNumber(argv[1]!);
  const clock = advanceSlotClock(redis, keys[0]!, leaseMs);
  redis.call("SET", keys[HEARTBEAT]!, Math.floor(clock.told / 1000), "PX", leaseMs);
  for (let i = 0; i < keys.length; i++) if (i !== HEARTBEAT) redis.call("PEXPIRE", keys[i]!, DAY_MS + leaseMs);
  const ends = clock.lease + leaseMs * 1000;
  const reply: ScriptReply = [1, 0, SLOT_SUCCESS, clock.incarnation];
  let renewed = 0;
  for (let i = FIRST_SLOT; i < argv.length; i = i + 3) {
    const member = connectionMember(argv[0]!, argv[i]!);
    const podKey = keys[FIXED_KEYS + wholeNumber(argv[i + 1]!) - 1]!;
    if (storedNumber(redis.call("ZSCORE", podKey, member), 0) > clock.lease) {
      redis.call("ZADD", podKey, ends, member);
      redis.call("ZADD", keys[1]!, ends, member);
      const app = wholeNumber(argv[i + 2]!);
      if (app > 0) redis.call("ZADD", keys[FIXED_KEYS + app - 1]!, ends, member);
      renewed = renewed + 1;
      reply.push(1);
    } else {
      reply.push(0);
    }
  }
  reply[1] = renewed;
  return reply;
}
