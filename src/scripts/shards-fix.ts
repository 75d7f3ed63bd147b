/**
 * Records the number of shards when a cluster is created, and returns it afterwards.
 *
 * KEYS  1 shards
 * ARGV  1 shards of the caller
 * Reply code · shards of the cluster
 */
import { OK } from "../core/codes.js";
import { storedNumber, wholeNumber } from "../core/platform.js";
import { MAX_SHARDS } from "../core/shard.js";
import { isWithin } from "./common/cluster.js";
import { invalid } from "./common/message.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function shardsFix(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 1) return invalid("keys");
  if (argv.length !== 1) return invalid("arguments");
  const wanted = wholeNumber(argv[0]!);
  if (!isWithin(wanted, 1, MAX_SHARDS)) return invalid("shards");
  const recorded = redis.call("GET", keys[0]!);
  if (recorded !== false) return [OK, storedNumber(recorded, wanted)];
  redis.call("SET", keys[0]!, wanted);
  return [OK, wanted];
}
