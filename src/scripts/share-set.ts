/**
 * Sets the share of a shard in the cluster's capacity and rate. May be repeated.
 *
 * KEYS  1 cluster
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 *       5 round · 6 share of the capacity (millionths) · 7 share of the rate (millionths) · 8 owner of the round
 * Reply code · share of the capacity · share of the rate (millionths), as they are now
 *
 * The capacity does not fall below what nodes hold: then their unused tokens are recalled, and the next round reduces it
 * further. What the bucket has beyond the new capacity is lost. The code is stale_message, and nothing changes, unless `shard-read` began this round here and no later one has begun since.
 */
import { cutToHighest, MICRO } from "../core/bucket.js";
import { OK, STALE_MESSAGE } from "../core/codes.js";
import { ALL_APPS } from "../core/keys.js";
import { WHOLE_SHARE } from "../core/shard.js";
import {
  CLUSTER_ARGUMENTS,
  isWithin,
  MAX_COUNTER,
  readCluster,
  readClusterCall,
  writeCluster,
} from "./common/cluster.js";
import { invalid } from "./common/message.js";
import { recallTokens } from "./common/recall.js";
import { isSameRound, readRound, shareOfCapacity, writeShare } from "./common/share.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const CAPACITY = 0;
const ROUND = CLUSTER_ARGUMENTS;
const SHARE_CAPACITY = CLUSTER_ARGUMENTS + 1;
const SHARE_RATE = CLUSTER_ARGUMENTS + 2;
const OWNER = CLUSTER_ARGUMENTS + 3;

export function shareSet(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 1) return invalid("keys");
  const { fault, numbers } = readClusterCall(argv, OWNER, 1);
  if (fault !== "") return invalid(fault);
  if (!isWithin(numbers[ROUND]!, 1, MAX_COUNTER)) return invalid("round");
  if (!isWithin(numbers[SHARE_CAPACITY]!, 0, WHOLE_SHARE)) return invalid("share_capacity");
  if (!isWithin(numbers[SHARE_RATE]!, 0, WHOLE_SHARE)) return invalid("share_rate");
  const key = keys[0]!;
  // Refilled at the old rate up to now.
  const cluster = readCluster(redis, key, numbers);
  const before = cluster.share;
  if (!isSameRound(readRound(redis, key), { round: numbers[ROUND]!, owner: argv[OWNER]! })) {
    return [STALE_MESSAGE, before.capacity, before.rate];
  }
  const share = { capacity: numbers[SHARE_CAPACITY]!, rate: numbers[SHARE_RATE]! };
  const wholeTokens = Math.max(numbers[CAPACITY]!, 1);
  const ofHeld = Math.ceil(cluster.held / wholeTokens);
  if (share.capacity < before.capacity) share.capacity = Math.min(Math.max(share.capacity, ofHeld), before.capacity);
  if (share.capacity > numbers[SHARE_CAPACITY]!) {
    const held = cluster.held / MICRO;
    recallTokens(redis, { clusterKey: key, key, app: ALL_APPS, held, now: cluster.now });
  }
  cluster.capacity = shareOfCapacity(numbers[CAPACITY]!, share);
  cutToHighest(cluster);
  writeCluster(redis, key, cluster);
  writeShare(redis, key, share);
  return [OK, share.capacity, share.rate];
}
