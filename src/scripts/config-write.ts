/**
 * Replaces the configuration layer in the store.
 *
 * KEYS  1 config · 2 saved reply of this operation
 * ARGV  1 the expected revision (-1: any) · 2 config (JSON in ASCII, at most 1 MiB)
 * Reply code · written (0 or 1) · revision, the new one or, when it was not expected, the stored one
 *
 * The services validate the content before they write it and again when they read it. A repeated operation gets the same
 * reply and writes nothing.
 */
import { OK } from "../core/codes.js";
import { wholeNumber } from "../core/platform.js";
import { isAny, isRevision, MAX_CONFIG_LENGTH, storedRevision } from "./common/config.js";
import { invalid } from "./common/message.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function configWrite(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 2) return invalid("keys");
  if (argv.length !== 2) return invalid("arguments");
  const expected = argv[0]!;
  const config = argv[1]!;
  if (!isRevision(expected)) return invalid("revision");
  if (config.length === 0 || config.length > MAX_CONFIG_LENGTH) return invalid("config");
  const before = savedReply(redis, keys[1]!);
  if (before.length > 0) return before;

  const revision = storedRevision(redis.call("HGET", keys[0]!, "revision"));
  if (!isAny(expected) && wholeNumber(expected) !== revision) return saveReply(redis, keys[1]!, [OK, 0, revision]);
  redis.call("HSET", keys[0]!, "revision", revision + 1, "config", config);
  return saveReply(redis, keys[1]!, [OK, 1, revision + 1]);
}
