/**
 * Reads how many tokens nodes hold, over all apps. Changes nothing.
 *
 * KEYS  1 cluster · 2… ledger of each node
 * ARGV  none
 * Reply tokens that all nodes hold, then what each node holds; 0 for an unknown one
 */
import { storedNumber } from "../core/platform.js";
import { invalid } from "./common/message.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function holdings(redis: RedisApi, keys: string[]): ScriptReply {
  if (keys.length === 0) return invalid("keys");
  const reply: ScriptReply = [];
  for (const key of keys) reply.push(storedNumber(redis.call("HGET", key, "held"), 0));
  return reply;
}
