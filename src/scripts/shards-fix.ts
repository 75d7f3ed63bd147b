/**
 * Records the number of shards when a cluster is created, and returns it afterwards.
 */
import { OK } from "../core/codes.js";
import { storedNumber } from "../core/platform.js";
import { MAX_SHARDS } from "../core/shard.js";
import { isWithin } from "./common/cluster.js";
import { ALWAYS_OK, invalid, operation, readCall } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export const SHARDS_FIX = operation({
  keys: ["shards"],
  arguments: [["shards"]],
  reply: [ALWAYS_OK, "shards"],
});

export function shardsFix(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = readCall(SHARDS_FIX, keys, argv);
  if (fault !== "") return invalid(fault);
  const { shards } = values;
  if (!isWithin(shards, 1, MAX_SHARDS)) return invalid("shards");
  const recorded = redis.call("GET", key.shards);
  if (recorded !== false) return [OK, storedNumber(recorded, shards)];
  redis.call("SET", key.shards, shards);
  return [OK, shards];
}
