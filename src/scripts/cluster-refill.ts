/**
 * Fills L1 of a shard, for an operator: its level is its capacity less what nodes hold, which is counted anew from the apps.
 *
 * Every configured app of the shard must be given: what nodes hold of others is counted again when they report it. A repeated
 * operation gets the same reply and fills nothing more.
 */
import { highestLevel, MICRO } from "../core/bucket.js";
import { OK } from "../core/codes.js";
import { storedNumber } from "../core/platform.js";
import { CLUSTER, checkCluster, readCluster, writeCluster } from "./common/cluster.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import { ALWAYS_OK, invalid, micro, operation, type ReplyOf, readCall } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** Levels are rounded down to micro-tokens; what nodes hold is in tokens. */
export const CLUSTER_REFILL = operation({
  keys: ["cluster", "operation"],
  moreKeys: "app",
  arguments: [CLUSTER],
  reply: [ALWAYS_OK, micro("levelBefore"), "heldBefore", micro("level"), "held"],
});

export function clusterRefill(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, moreKeys, values } = checkCluster(readCall(CLUSTER_REFILL, keys, argv));
  if (fault !== "") return invalid(fault);
  const before = savedReply(redis, key.operation);
  if (before.length > 0) return before;

  const level = storedNumber(redis.call("HGET", key.cluster, "tokens"), values.clusterCapacity * MICRO);
  const cluster = readCluster(redis, key.cluster, values);
  const heldBefore = cluster.held / MICRO;
  let held = 0;
  for (const app of moreKeys) held = held + storedNumber(redis.call("HGET", app, "l1_held"), 0);
  cluster.held = held * MICRO;
  cluster.tokens = highestLevel(cluster);
  writeCluster(redis, key.cluster, cluster);
  redis.call("HDEL", key.cluster, "written_off");
  const filled = Math.floor(cluster.tokens);
  const reply: ReplyOf<typeof CLUSTER_REFILL> = [OK, Math.floor(level), heldBefore, filled, held];
  return saveReply(redis, key.operation, reply);
}
