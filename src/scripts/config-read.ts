/**
 * Reads the configuration layer in the store. Changes nothing.
 *
 * KEYS  1 config
 * ARGV  1 the revision that the caller knows (-1: none)
 * Reply code · revision (0: nothing is stored) · config (JSON; empty when nothing is stored, or when the caller has it)
 *
 * A text larger than `config-write` accepts is rejected: `invalid_argument` · `config`.
 */
import { OK } from "../core/codes.js";
import { wholeNumber } from "../core/platform.js";
import { isRevision, MAX_CONFIG_LENGTH, storedRevision } from "./common/config.js";
import { invalid } from "./common/message.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function configRead(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 1) return invalid("keys");
  if (argv.length !== 1) return invalid("arguments");
  const known = argv[0]!;
  if (!isRevision(known)) return invalid("revision");

  const fields = redis.call("HMGET", keys[0]!, "revision", "config");
  const revision = storedRevision(fields[0]!);
  const text = fields[1]!;
  // -1 is not a whole number, so it never equals a stored revision.
  if (text === false || wholeNumber(known) === revision) return [OK, revision, ""];
  return text.length > MAX_CONFIG_LENGTH ? invalid("config") : [OK, revision, text];
}
