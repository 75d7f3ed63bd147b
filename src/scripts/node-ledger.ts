/**
 * Reads the ledger of one node in one epoch. Changes nothing.
 *
 * KEYS  1 ledger of the node
 * ARGV  none
 * Reply alternating fields and values, as texts, in no particular order: seq, closed, held, answer, and per app
 *       g:<app> granted · s:<app> spent · r:<app> returned. Empty for an unknown node.
 */
import { invalid } from "./common/message.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function nodeLedger(redis: RedisApi, keys: string[]): ScriptReply {
  if (keys.length !== 1) return invalid("keys");
  return redis.call("HGETALL", keys[0]!);
}
