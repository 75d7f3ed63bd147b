/**
 * Takes, renews or releases a lock with one holder. It expires when its holder is gone.
 *
 * A repeated call has the same effect: a taken lock is renewed, a released one stays free.
 * A clock that steps back makes a lock last at most one more time-to-live.
 */
import { HELD, OK } from "../core/codes.js";
import { isIdentifier, storedNumber } from "../core/platform.js";
import { isWithin, MAX_DURATION_MS, storeTime } from "./common/cluster.js";
import { flag, invalid, operation, type ReplyOf, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** The code is ok or held. `leftMs`: of the caller's own lock, 0 once released, or of the holder's. */
export const LOCK = operation({
  keys: ["lock"],
  arguments: [[text("owner"), "ttlMs", flag("release")]],
  reply: [text("code"), "leftMs"],
});

/** The key outlives the lock by this much. The expiry time in its value decides whether the lock is held. */
const KEPT_MS = 60000;

export function lock(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = readCall(LOCK, keys, argv);
  if (fault !== "") return invalid(fault);
  const { owner, ttlMs, release } = values;
  if (!isIdentifier(owner)) return invalid("owner");
  if (!isWithin(ttlMs, 1, MAX_DURATION_MS)) return invalid("ttl_ms");
  if (!isWithin(release, 0, 1)) return invalid("release");

  const now = storeTime(redis);
  const [holder, until, ttl] = redis.call("HMGET", key.lock, "owner", "until", "ttl");
  const left = storedNumber(until, now) - now;
  if (holder !== false && holder !== owner && left > 0) {
    const longest = storedNumber(ttl, 0) * 1000;
    if (left > longest) redis.call("HSET", key.lock, "until", now + longest);
    return [HELD, Math.ceil(Math.min(left, longest) / 1000)] satisfies ReplyOf<typeof LOCK>;
  }
  if (release === 1) {
    redis.call("DEL", key.lock);
    return [OK, 0];
  }
  redis.call("HSET", key.lock, "owner", owner, "until", now + ttlMs * 1000, "ttl", ttlMs);
  redis.call("PEXPIRE", key.lock, ttlMs + KEPT_MS);
  return [OK, ttlMs];
}
