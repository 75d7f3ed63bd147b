/**
 * Takes, renews or releases a lock with one holder. It expires when its holder is gone.
 *
 * KEYS  1 lock
 * ARGV  1 owner · 2 time-to-live (ms) · 3 what (0 take or renew, 1 release)
 * Reply code (ok or held) · left (ms): of the caller's own lock, 0 once released, or of the holder's
 *
 * A repeated call has the same effect: a taken lock is renewed, a released one stays free.
 * A clock that steps back makes a lock last at most one more time-to-live.
 */
import { HELD, OK } from "../core/codes.js";
import { isIdentifier, storedNumber, wholeNumbers } from "../core/platform.js";
import { isWithin, MAX_DURATION_MS, storeTime } from "./common/cluster.js";
import { invalid } from "./common/message.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const RELEASE = 1;
/** The key outlives the lock by this much. The expiry time in its value decides whether the lock is held. */
const KEPT_MS = 60000;

export function lock(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 1) return invalid("keys");
  if (argv.length !== 3) return invalid("arguments");
  const owner = argv[0]!;
  const numbers = wholeNumbers(argv, 1, 2);
  const ttl = numbers[0]!;
  const what = numbers[1]!;
  if (!isIdentifier(owner)) return invalid("owner");
  if (!isWithin(ttl, 1, MAX_DURATION_MS)) return invalid("ttl_ms");
  if (!isWithin(what, 0, RELEASE)) return invalid("what");

  const now = storeTime(redis);
  const fields = redis.call("HMGET", keys[0]!, "owner", "until", "ttl");
  const left = storedNumber(fields[1]!, now) - now;
  if (fields[0] !== false && fields[0] !== owner && left > 0) {
    const longest = storedNumber(fields[2]!, 0) * 1000;
    if (left <= longest) return [HELD, Math.ceil(left / 1000)];
    redis.call("HSET", keys[0]!, "until", now + longest);
    return [HELD, Math.ceil(longest / 1000)];
  }
  if (what === RELEASE) {
    redis.call("DEL", keys[0]!);
    return [OK, 0];
  }
  redis.call("HSET", keys[0]!, "owner", owner, "until", now + ttl * 1000, "ttl", ttl);
  redis.call("PEXPIRE", keys[0]!, ttl + KEPT_MS);
  return [OK, ttl];
}
