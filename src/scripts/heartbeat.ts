/**
 * Keeps an idle node alive and advances the clock of the nodes.
 *
 * KEYS  1 cluster · 2 nodes · 3 ledger of the node
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards · 5 node@epoch
 * Reply code (ok or epoch_closed) · live nodes · emergency (0 or 1) · emergency left (ms) · known (0 or 1)
 */
import { EPOCH_CLOSED, OK } from "../core/codes.js";
import { CLUSTER_ARGUMENTS, liveNodes, readCluster, readClusterCall, writeCluster } from "./common/cluster.js";
import { invalid, replyHead } from "./common/message.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function heartbeat(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 3) return invalid("keys");
  const { fault, numbers } = readClusterCall(argv, CLUSTER_ARGUMENTS, 1);
  if (fault !== "") return invalid(fault);
  const node = argv[CLUSTER_ARGUMENTS]!;
  if (node === "") return invalid("node");
  const cluster = readCluster(redis, keys[0]!, numbers);
  const stored = redis.call("HGET", keys[2]!, "closed");
  const closed = stored === "1";
  if (!closed) redis.call("ZADD", keys[1]!, cluster.clock, node);
  writeCluster(redis, keys[0]!, cluster);
  const live = liveNodes(redis, keys[1]!, cluster);
  return replyHead(closed ? EPOCH_CLOSED : OK, live, { cluster, ledger: { known: stored !== false } });
}
