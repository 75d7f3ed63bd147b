/**
 * Starts or ends the two stages of the automatic emergency by the cluster's usage, and advances the clock of the nodes.
 * Services call it a few times per second.
 *
 * KEYS  1 cluster
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 *       5 cool-down (ms) · 6 automatic (0: end what usage has started, 1: start and end by usage)
 *       if there are several shards, otherwise 0: 7 usage of all (millionths) · 8 one could not pay an own rate (0 or 1)
 * Reply code · active (0 or 1) · changed (0 or 1) · source (none, operator, usage) · since (ms since 1970)
 *       left (ms; 0 for no end) · usage (millionths) · reason · operator (both empty unless an operator started it)
 *       bursts stopped (0 or 1)
 *
 * A repeated call reports the emergency as unchanged.
 */
import { MICRO } from "../core/bucket.js";
import { OK } from "../core/codes.js";
import { BY_NOBODY, BY_USAGE, type Emergency, nextEmergency, nextStoppedBursts, usage } from "../core/emergency.js";
import {
  CLUSTER_ARGUMENTS,
  isWithin,
  MAX_DURATION_MS,
  NO_EMERGENCY,
  readCluster,
  readClusterCall,
  readEmergency,
  readOrder,
  readStopped,
  wasOwnShort,
  writeCluster,
  writeEmergency,
  writeStopped,
} from "./common/cluster.js";
import { invalid } from "./common/message.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const COOLDOWN_MS = CLUSTER_ARGUMENTS;
const AUTOMATIC = CLUSTER_ARGUMENTS + 1;
const USAGE = CLUSTER_ARGUMENTS + 2;
const OWN_SHORT = CLUSTER_ARGUMENTS + 3;

export function emergencyCheck(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 1) return invalid("keys");
  const { fault, numbers } = readClusterCall(argv, OWN_SHORT + 1, 0);
  if (fault !== "") return invalid(fault);
  if (!isWithin(numbers[COOLDOWN_MS]!, 0, MAX_DURATION_MS)) return invalid("cooldown_ms");
  if (!isWithin(numbers[AUTOMATIC]!, 0, 1)) return invalid("automatic");
  if (!isWithin(numbers[USAGE]!, 0, MICRO)) return invalid("usage");
  if (!isWithin(numbers[OWN_SHORT]!, 0, 1)) return invalid("own_short");

  const cluster = readCluster(redis, keys[0]!, numbers);
  const before = readEmergency(redis, keys[0]!);
  // Tokens on leases are not used yet.
  const own = usage(cluster.tokens + cluster.held, cluster.capacity);
  const used = cluster.shards === 1 ? own : numbers[USAGE]! / MICRO;
  const ownShort = cluster.shards === 1 ? wasOwnShort(redis, keys[0]!, cluster.now) : numbers[OWN_SHORT] === 1;
  const cooldown = numbers[COOLDOWN_MS]! * 1000;
  const stoppedBefore = readStopped(redis, keys[0]!);
  let stopped = stoppedBefore;
  let next: Emergency = before;
  if (numbers[AUTOMATIC] === 1) {
    stopped = nextStoppedBursts(stoppedBefore, used, cluster.now, cooldown);
    next = nextEmergency(before, { used, stopped, ownShort }, cluster.now, cooldown);
  } else {
    stopped = { since: 0, calmSince: 0 };
    if (cluster.emergencyMs === NO_EMERGENCY || before.source === BY_USAGE) {
      next = { active: false, source: BY_NOBODY, since: 0, until: 0, calmSince: 0 };
    }
  }
  const changed = next.active !== before.active || stopped.since > 0 !== stoppedBefore.since > 0;
  writeCluster(redis, keys[0]!, cluster);
  writeStopped(redis, keys[0]!, stopped);
  writeEmergency(redis, keys[0]!, next);
  const order = readOrder(redis, keys[0]!, next);
  return [
    OK,
    next.active ? 1 : 0,
    changed ? 1 : 0,
    next.source,
    Math.floor(next.since / 1000),
    next.active && next.until > 0 ? Math.ceil((next.until - cluster.now) / 1000) : 0,
    Math.floor(used * MICRO),
    order.reason,
    order.operator,
    stopped.since > 0 ? 1 : 0,
  ];
}
