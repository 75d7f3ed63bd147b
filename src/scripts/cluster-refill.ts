/**
 * Fills L1 of a shard, for an operator: its level is its capacity less what nodes hold, which is counted anew from the apps.
 *
 * KEYS  1 cluster · 2 saved reply of this operation · 3… app
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 * Reply code · level before (micro-tokens, rounded down) · held before (tokens) · level · held
 *
 * Every configured app of the shard must be given: what nodes hold of others is counted again when they report it. A repeated
 * operation gets the same reply and fills nothing more.
 */
import { highestLevel, MICRO } from "../core/bucket.js";
import { OK } from "../core/codes.js";
import { storedNumber } from "../core/platform.js";
import { CLUSTER_ARGUMENTS, readCluster, readClusterCall, writeCluster } from "./common/cluster.js";
import { invalid } from "./common/message.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const FIRST_APP = 2;

export function clusterRefill(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length < FIRST_APP) return invalid("keys");
  const { fault, numbers } = readClusterCall(argv, CLUSTER_ARGUMENTS, 0);
  if (fault !== "") return invalid(fault);
  const before = savedReply(redis, keys[1]!);
  if (before.length > 0) return before;

  const key = keys[0]!;
  const level = storedNumber(redis.call("HGET", key, "tokens"), numbers[0]! * MICRO);
  const cluster = readCluster(redis, key, numbers);
  const heldBefore = cluster.held / MICRO;
  let held = 0;
  for (let i = FIRST_APP; i < keys.length; i++) {
    held = held + storedNumber(redis.call("HGET", keys[i]!, "l1_held"), 0);
  }
  cluster.held = held * MICRO;
  cluster.tokens = highestLevel(cluster);
  writeCluster(redis, key, cluster);
  redis.call("HDEL", key, "written_off");
  return saveReply(redis, keys[1]!, [OK, Math.floor(level), heldBefore, Math.floor(cluster.tokens), held]);
}
