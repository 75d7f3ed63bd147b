/**
 * Reads and replaces the configuration layer in the store: a hash with its revision and its text.
 *
 * The services validate the content before they write it and again when they read it. A repeated write gets the same reply
 * and writes nothing.
 */
import { OK } from "../core/codes.js";
import { wholeNumber } from "../core/platform.js";
import { isWithin, MAX_COUNTER } from "./common/cluster.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import { ALWAYS_OK, flag, invalid, operation, type ReplyOf, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply, Stored } from "./redis-api.js";

/** 1 MiB. The text is ASCII, so characters are bytes. */
const MAX_LENGTH = 1048576;
/** Instead of a revision. A text, because it is not a whole number. */
const ANY = "-1";

/**
 * `known`: the revision that the caller has, or -1. `revision` 0: nothing is stored. `config`: JSON; empty when nothing is stored, or
 * when the caller has it. A text larger than `config-write` accepts is rejected.
 */
export const CONFIG_READ = operation({
  keys: ["config"],
  arguments: [[text("known")]],
  reply: [ALWAYS_OK, "revision", text("config")],
});

/** `expected`: a revision, or -1 for any. `revision`: the new one or, when it was not expected, the stored one. */
export const CONFIG_WRITE = operation({
  keys: ["config", "operation"],
  arguments: [[text("expected"), text("config")]],
  reply: [ALWAYS_OK, flag("written"), "revision"],
});

function isRevision(revision: string): boolean {
  return revision === ANY || isWithin(wholeNumber(revision), 0, MAX_COUNTER);
}

/** The stored revision; 0 when it is missing or invalid. */
function storedRevision(stored: Stored): number {
  const revision = stored === false ? 0 : wholeNumber(stored);
  return isWithin(revision, 0, MAX_COUNTER - 1) ? revision : 0;
}

export function configRead(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = readCall(CONFIG_READ, keys, argv);
  if (fault !== "") return invalid(fault);
  const { known } = values;
  if (!isRevision(known)) return invalid("revision");

  const [stored, config] = redis.call("HMGET", key.config, "revision", "config");
  const revision = storedRevision(stored);
  // -1 is not a whole number, so it never equals a stored revision.
  const isKnown = config === false || wholeNumber(known) === revision;
  if (!isKnown && config.length > MAX_LENGTH) return invalid("config");
  return [OK, revision, isKnown ? "" : config] satisfies ReplyOf<typeof CONFIG_READ>;
}

export function configWrite(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = readCall(CONFIG_WRITE, keys, argv);
  if (fault !== "") return invalid(fault);
  const { expected, config } = values;
  if (!isRevision(expected)) return invalid("revision");
  if (config.length === 0 || config.length > MAX_LENGTH) return invalid("config");
  const before = savedReply(redis, key.operation);
  if (before.length > 0) return before;

  const revision = storedRevision(redis.call("HGET", key.config, "revision"));
  const writes = expected === ANY || wholeNumber(expected) === revision;
  if (writes) redis.call("HSET", key.config, "revision", revision + 1, "config", config);
  const reply: ReplyOf<typeof CONFIG_WRITE> = writes ? [OK, 1, revision + 1] : [OK, 0, revision];
  return saveReply(redis, key.operation, reply);
}
