/** The nodes of a cluster: keeps one alive, lists them, and shows the ledger of one. */
import { EPOCH_CLOSED, OK } from "../core/codes.js";
import { storedNumber } from "../core/platform.js";
import { CLUSTER_ARGUMENTS, isAlive, liveNodes, readCluster, readClusterCall, writeCluster } from "./common/cluster.js";
import { invalid, replyHead } from "./common/message.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/**
 * Keeps an idle node alive and advances the clock of the nodes.
 *
 * KEYS  1 cluster · 2 nodes · 3 ledger of the node
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 node@epoch
 * Reply code (ok or epoch_closed) · live nodes · emergency (0 or 1) · emergency left (ms)
 */
export function heartbeat(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 3) return invalid("keys");
  const { fault, numbers } = readClusterCall(argv, CLUSTER_ARGUMENTS, 1);
  if (fault !== "") return invalid(fault);
  const node = argv[CLUSTER_ARGUMENTS]!;
  if (node === "") return invalid("node");
  const cluster = readCluster(redis, keys[0]!, numbers);
  const closed = redis.call("HGET", keys[2]!, "closed") === "1";
  if (!closed) redis.call("ZADD", keys[1]!, cluster.clock, node);
  writeCluster(redis, keys[0]!, cluster);
  return replyHead(closed ? EPOCH_CLOSED : OK, liveNodes(redis, keys[1]!, cluster), cluster);
}

/**
 * Lists the known nodes: live ones and dead ones that are not reconciled yet. Changes nothing.
 *
 * KEYS  1 cluster · 2 nodes
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms)
 * Reply code, then per node: node@epoch · silent for (ms) · alive (0 or 1)
 */
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

/**
 * Reads the ledger of one node in one epoch. Changes nothing.
 *
 * KEYS  1 ledger of the node
 * ARGV  none
 * Reply alternating fields and values, as texts, in no particular order: seq, closed, held, answer, and per app
 *       g:<app> granted · s:<app> spent · r:<app> returned. Empty for an unknown node.
 */
export function nodeLedger(redis: RedisApi, keys: string[]): ScriptReply {
  if (keys.length !== 1) return invalid("keys");
  return redis.call("HGETALL", keys[0]!);
}
