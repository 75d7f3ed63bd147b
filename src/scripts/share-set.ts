/**
 * Sets the share of a shard in the cluster's capacity and rate. May be repeated.
 *
 * The capacity does not fall below what nodes hold: then their unused tokens are recalled, and the next round reduces it
 * further. What the bucket has beyond the new capacity is lost. The code is stale_message, and nothing changes, unless `shard-read` began this round here and no later one has begun since.
 */
import { cutToHighest, MICRO } from "../core/bucket.js";
import { OK, STALE_MESSAGE } from "../core/codes.js";
import { ALL_APPS } from "../core/keys.js";
import { WHOLE_SHARE } from "../core/shard.js";
import { CLUSTER, checkCluster, isWithin, MAX_COUNTER, readCluster, writeCluster } from "./common/cluster.js";
import { recallTokens } from "./common/recall.js";
import { isSameRound, readRound, shareOfCapacity, writeShare } from "./common/share.js";
import { invalid, operation, type ReplyOf, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** The shares are in millionths; in the reply, as they are now. */
export const SHARE_SET = operation({
  keys: ["cluster"],
  arguments: [CLUSTER, ["round", "capacity", "rate", text("owner")]],
  reply: [text("code"), "capacity", "rate"],
});

export function shareSet(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = checkCluster(readCall(SHARE_SET, keys, argv));
  if (fault !== "") return invalid(fault);
  const { clusterCapacity, round, owner, capacity, rate } = values;
  if (!isWithin(round, 1, MAX_COUNTER)) return invalid("round");
  if (!isWithin(capacity, 0, WHOLE_SHARE)) return invalid("share_capacity");
  if (!isWithin(rate, 0, WHOLE_SHARE)) return invalid("share_rate");
  // Refilled at the old rate up to now.
  const cluster = readCluster(redis, key.cluster, values);
  const before = cluster.share;
  if (!isSameRound(readRound(redis, key.cluster), { round, owner })) {
    return [STALE_MESSAGE, before.capacity, before.rate];
  }
  const share = { capacity, rate };
  const ofHeld = Math.ceil(cluster.held / Math.max(clusterCapacity, 1));
  if (capacity < before.capacity) share.capacity = Math.min(Math.max(capacity, ofHeld), before.capacity);
  if (share.capacity > capacity) {
    const held = cluster.held / MICRO;
    recallTokens(redis, { clusterKey: key.cluster, key: key.cluster, app: ALL_APPS, held, now: cluster.now });
  }
  cluster.capacity = shareOfCapacity(clusterCapacity, share);
  cutToHighest(cluster);
  writeCluster(redis, key.cluster, cluster);
  writeShare(redis, key.cluster, share);
  return [OK, share.capacity, share.rate] satisfies ReplyOf<typeof SHARE_SET>;
}
