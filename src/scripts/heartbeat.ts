/**
 * Keeps an idle node alive and advances the clock of the nodes.
 */
import { EPOCH_CLOSED, OK } from "../core/codes.js";
import { CLUSTER, checkCluster, liveNodes, readCluster, writeCluster } from "./common/cluster.js";
import { MESSAGE_KEYS, NODE_REPLY, replyHead } from "./common/message.js";
import { invalid, operation, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** The code is ok or epoch_closed. */
export const HEARTBEAT = operation({
  keys: MESSAGE_KEYS,
  arguments: [CLUSTER, [text("node")]],
  reply: NODE_REPLY,
});

export function heartbeat(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = checkCluster(readCall(HEARTBEAT, keys, argv));
  if (fault !== "") return invalid(fault);
  if (values.node === "") return invalid("node");
  const cluster = readCluster(redis, key.cluster, values);
  const stored = redis.call("HGET", key.ledger, "closed");
  const closed = stored === "1";
  if (!closed) redis.call("ZADD", key.nodes, cluster.clock, values.node);
  writeCluster(redis, key.cluster, cluster);
  const live = liveNodes(redis, key.nodes, cluster);
  return replyHead(closed ? EPOCH_CLOSED : OK, live, { cluster, ledger: { known: stored !== false } });
}
