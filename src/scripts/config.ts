/** The configuration layer in the store, a hash with its revision and its text: reads and replaces it. */
import { OK } from "../core/codes.js";
import { wholeNumber } from "../core/platform.js";
import { isWithin, MAX_COUNTER } from "./common/cluster.js";
import { invalid } from "./common/message.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** 1 MiB. The text is ASCII, so characters are bytes. */
const MAX_CONFIG_LENGTH = 1048576;

/** Instead of a revision. */
const ANY = "-1";

function isRevision(revision: string): boolean {
  return revision === ANY || isWithin(wholeNumber(revision), 0, MAX_COUNTER);
}

/** The stored revision; 0 when there is none or it is invalid. */
function storedRevision(text: string | false): number {
  const revision = text === false ? 0 : wholeNumber(text);
  return isWithin(revision, 0, MAX_COUNTER - 1) ? revision : 0;
}

/**
 * Reads the configuration layer in the store. Changes nothing.
 *
 * KEYS  1 config
 * ARGV  1 the revision that the caller knows (-1: none)
 * Reply code · revision (0 when there is none) · config (JSON; empty when there is none, or when the caller has it)
 *
 * A text larger than `config-write` accepts is rejected: `invalid_argument` · `config`.
 */
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
  if (expected !== ANY && wholeNumber(expected) !== revision) return saveReply(redis, keys[1]!, [OK, 0, revision]);
  redis.call("HSET", keys[0]!, "revision", revision + 1, "config", config);
  return saveReply(redis, keys[1]!, [OK, 1, revision + 1]);
}
