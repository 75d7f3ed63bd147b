/**
 * Reads the state of a shard. With a round, it also begins that round here: from now on only it, or a later one, may change
 * the share.
 *
 * KEYS  1 cluster
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 *       5 round (0: only read) · 6 owner of the round
 * Reply code · latest round · share of the capacity (millionths) · share of the rate (millionths)
 *       level (micro-tokens, rounded down) · held (tokens) · taken · refused (tokens, cumulative)
 *       largest refused need (that was not paid since) · emergency (0 or 1) · its source · since (ms since 1970) · left (ms)
 *       its reason · operator · bursts stopped (0 or 1) · could not pay an own rate in the last second (0 or 1)
 *       reserve (micro-tokens) · written off (tokens, cumulative)
 *
 * The code is stale_message, and nothing changes, if a later round has begun or another owner runs this one.
 */

import { MICRO } from "../core/bucket.js";
import { OK, STALE_MESSAGE } from "../core/codes.js";
import { BY_NOBODY } from "../core/emergency.js";
import {
  CLUSTER_ARGUMENTS,
  isWithin,
  MAX_COUNTER,
  NO_EMERGENCY,
  readCluster,
  readClusterCall,
  readEmergency,
  readOrder,
  readWrittenOff,
  wasOwnShort,
  writeCluster,
} from "./common/cluster.js";
import { invalid } from "./common/message.js";
import { isSameRound, largestRefused, readRound, writeRound } from "./common/share.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const ROUND = CLUSTER_ARGUMENTS;
const OWNER = CLUSTER_ARGUMENTS + 1;

export function shardRead(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 1) return invalid("keys");
  const { fault, numbers } = readClusterCall(argv, OWNER, 1);
  if (fault !== "") return invalid(fault);
  if (!isWithin(numbers[ROUND]!, 0, MAX_COUNTER)) return invalid("round");
  const key = keys[0]!;
  const asked = { round: numbers[ROUND]!, owner: argv[OWNER]! };
  const latest = readRound(redis, key);
  const cluster = readCluster(redis, key, numbers);
  const { share, demand, emergencyMs } = cluster;
  const emergency = readEmergency(redis, key);
  const active = emergencyMs !== NO_EMERGENCY;
  const order = readOrder(redis, key, { ...emergency, active });
  const begins = asked.round > latest.round || isSameRound(asked, latest);
  const reply: ScriptReply = [
    begins || asked.round === 0 ? OK : STALE_MESSAGE,
    begins ? asked.round : latest.round,
    share.capacity,
    share.rate,
    Math.floor(cluster.tokens),
    cluster.held / MICRO,
    demand.taken,
    demand.refused,
    largestRefused(redis, key, cluster.now),
    active ? 1 : 0,
    active ? emergency.source : BY_NOBODY,
    active ? Math.floor(emergency.since / 1000) : 0,
    Math.max(emergencyMs, 0),
    order.reason,
    order.operator,
    cluster.burstsStopped ? 1 : 0,
    wasOwnShort(redis, key, cluster.now) ? 1 : 0,
    cluster.reserve,
    readWrittenOff(redis, key),
  ];
  if (begins && asked.round > latest.round) {
    writeRound(redis, key, asked);
    writeCluster(redis, key, cluster);
  }
  return reply;
}
