/**
 * Reads the state of a shard. With a round, it also begins that round here: from now on only it, or a later one, may change
 * the share.
 *
 * The code is stale_message, and nothing changes, if a later round has begun or another owner runs this one.
 */

import { MICRO } from "../core/bucket.js";
import { OK, STALE_MESSAGE } from "../core/codes.js";
import { BY_NOBODY } from "../core/emergency.js";
import {
  CLUSTER,
  checkCluster,
  isWithin,
  MAX_COUNTER,
  NO_EMERGENCY,
  readCluster,
  readEmergency,
  readOrder,
  readWrittenOff,
  wasOwnShort,
  writeCluster,
} from "./common/cluster.js";
import { isSameRound, largestRefused, readRound, writeRound } from "./common/share.js";
import { flag, invalid, micro, operation, type ReplyOf, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/**
 * `round` 0: only read; in the reply, the latest round. Shares are in millionths, the level is rounded down to micro-tokens.
 * `taken`, `refused` and `writtenOff` are cumulative. `largestRefused`: the largest need that was not paid since. The emergency is as
 * in the reply of `emergency-check`. `ownShort`: the shard could not pay an app's own rate in the last second.
 */
export const SHARD_READ = operation({
  keys: ["cluster"],
  arguments: [CLUSTER, ["round", text("owner")]],
  reply: [
    text("code"),
    "round",
    "shareCapacity",
    "shareRate",
    micro("tokens"),
    "held",
    "taken",
    "refused",
    "largestRefused",
    flag("active"),
    text("source"),
    "sinceMs",
    "leftMs",
    text("reason"),
    text("operator"),
    flag("burstsStopped"),
    flag("ownShort"),
    micro("reserve"),
    "writtenOff",
  ],
});

export function shardRead(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key: keysByName, values } = checkCluster(readCall(SHARD_READ, keys, argv));
  if (fault !== "") return invalid(fault);
  if (!isWithin(values.round, 0, MAX_COUNTER)) return invalid("round");
  const key = keysByName.cluster;
  const asked = { round: values.round, owner: values.owner };
  const latest = readRound(redis, key);
  const cluster = readCluster(redis, key, values);
  const { share, demand, emergencyMs } = cluster;
  const emergency = readEmergency(redis, key);
  const active = emergencyMs !== NO_EMERGENCY;
  const order = readOrder(redis, key, { ...emergency, active });
  const begins = asked.round > latest.round || isSameRound(asked, latest);
  const reply: ReplyOf<typeof SHARD_READ> = [
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
