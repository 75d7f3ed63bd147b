/**
 * Starts or ends the emergency by the cluster's usage, and advances the clock of the nodes.
 * Services call it a few times per second.
 *
 * KEYS  1 cluster
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 *       5 cool-down (ms) · 6 automatic (0: only report and let it expire, 1: start and end by usage)
 *       7 usage of all shards (millionths), if there are several
 * Reply code · active (0 or 1) · changed (0 or 1) · source (none, operator, usage) · since (ms since 1970)
 *       left (ms; 0 for no end) · usage (millionths) · reason · operator (both empty unless an operator started it)
 *
 * A repeated call reports the emergency as unchanged.
 */
import { MICRO } from "../core/bucket.js";
import { OK } from "../core/codes.js";
import { BY_NOBODY, type Emergency, nextEmergency, usage } from "../core/emergency.js";
import {
  CLUSTER_ARGUMENTS,
  isWithin,
  MAX_DURATION_MS,
  NO_EMERGENCY,
  readCluster,
  readClusterCall,
  readEmergency,
  readOrder,
  writeCluster,
  writeEmergency,
} from "./common/cluster.js";
import { invalid } from "./common/message.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const COOLDOWN_MS = CLUSTER_ARGUMENTS;
const AUTOMATIC = CLUSTER_ARGUMENTS + 1;
const USAGE = CLUSTER_ARGUMENTS + 2;

export function emergencyCheck(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 1) return invalid("keys");
  const { fault, numbers } = readClusterCall(argv, USAGE + 1, 0);
  if (fault !== "") return invalid(fault);
  if (!isWithin(numbers[COOLDOWN_MS]!, 0, MAX_DURATION_MS)) return invalid("cooldown_ms");
  if (!isWithin(numbers[AUTOMATIC]!, 0, 1)) return invalid("automatic");
  if (!isWithin(numbers[USAGE]!, 0, MICRO)) return invalid("usage");

  const cluster = readCluster(redis, keys[0]!, numbers);
  const before = readEmergency(redis, keys[0]!);
  // Tokens on leases are not used yet.
  const own = usage(cluster.tokens + cluster.held, cluster.capacity);
  const used = cluster.shards === 1 ? own : numbers[USAGE]! / MICRO;
  let next: Emergency = before;
  if (numbers[AUTOMATIC] === 1) {
    next = nextEmergency(before, used, cluster.now, numbers[COOLDOWN_MS]! * 1000);
  } else if (cluster.emergencyMs === NO_EMERGENCY) {
    next = { active: false, source: BY_NOBODY, since: 0, until: 0, calmSince: 0 };
  }
  writeCluster(redis, keys[0]!, cluster);
  writeEmergency(redis, keys[0]!, next);
  const order = readOrder(redis, keys[0]!, next);
  return [
    OK,
    next.active ? 1 : 0,
    next.active === before.active ? 0 : 1,
    next.source,
    Math.floor(next.since / 1000),
    next.active && next.until > 0 ? Math.ceil((next.until - cluster.now) / 1000) : 0,
    Math.floor(used * MICRO),
    order.reason,
    order.operator,
  ];
}
