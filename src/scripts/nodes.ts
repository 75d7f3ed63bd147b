/**
 * Lists the known nodes: live ones and dead ones that are not reconciled yet. Changes nothing.
 *
 * KEYS  1 cluster · 2 nodes
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 * Reply code, then per node: node@epoch · silent for (ms) · alive (0 or 1)
 */
import { OK } from "../core/codes.js";
import { storedNumber } from "../core/platform.js";
import { CLUSTER_ARGUMENTS, isAlive, readCluster, readClusterCall } from "./common/cluster.js";
import { invalid } from "./common/message.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function nodes(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 2) return invalid("keys");
  const { fault, numbers } = readClusterCall(argv, CLUSTER_ARGUMENTS, 0);
  if (fault !== "") return invalid(fault);
  const cluster = readCluster(redis, keys[0]!, numbers);
  const reply: ScriptReply = [OK];
  const members = redis.call("ZRANGE", keys[1]!, 0, -1, "WITHSCORES");
  for (let i = 0; i < members.length; i = i + 2) {
    const silent = cluster.clock - storedNumber(members[i + 1]!, 0);
    reply.push(members[i]!);
    reply.push(Math.max(Math.floor(silent / 1000), 0));
    reply.push(isAlive(silent, cluster) ? 1 : 0);
  }
  return reply;
}
