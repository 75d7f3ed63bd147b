/** Starts and ends the emergency: by an operator, or by the usage of the cluster. */
import { MICRO } from "../core/bucket.js";
import { OK } from "../core/codes.js";
import { BY_NOBODY, BY_OPERATOR, type Emergency, nextEmergency, usage } from "../core/emergency.js";
import {
  CLUSTER_ARGUMENTS,
  isWithin,
  MAX_DURATION_MS,
  NO_EMERGENCY,
  readCluster,
  readClusterCall,
  readEmergency,
  writeCluster,
  writeEmergency,
} from "./common/cluster.js";
import { invalid } from "./common/message.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** Positions in a check. */
const COOLDOWN_MS = CLUSTER_ARGUMENTS;
const AUTOMATIC = CLUSTER_ARGUMENTS + 1;
/** Positions when it is turned on. */
const DURATION_MS = CLUSTER_ARGUMENTS;
const REASON = CLUSTER_ARGUMENTS + 1;
const OPERATOR = CLUSTER_ARGUMENTS + 2;

/**
 * Starts or ends the emergency by the cluster's usage, and advances the clock of the nodes.
 * Services call it a few times per second.
 *
 * KEYS  1 cluster
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms)
 *       4 cool-down (ms) · 5 automatic (0: only report and let it expire, 1: start and end by usage)
 * Reply code · active (0 or 1) · changed (0 or 1) · source (none, operator, usage) · since (ms since 1970)
 *       left (ms; 0 for no end) · usage (millionths)
 *
 * A repeated call reports the emergency as unchanged.
 */
export function emergencyCheck(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 1) return invalid("keys");
  const { fault, numbers } = readClusterCall(argv, AUTOMATIC + 1, 0);
  if (fault !== "") return invalid(fault);
  if (!isWithin(numbers[COOLDOWN_MS]!, 0, MAX_DURATION_MS)) return invalid("cooldown_ms");
  if (!isWithin(numbers[AUTOMATIC]!, 0, 1)) return invalid("automatic");

  const cluster = readCluster(redis, keys[0]!, numbers);
  const before = readEmergency(redis, keys[0]!);
  const used = usage(cluster.tokens, cluster.capacity);
  let next: Emergency = before;
  if (numbers[AUTOMATIC] === 1) {
    next = nextEmergency(before, used, cluster.now, numbers[COOLDOWN_MS]! * 1000);
  } else if (cluster.emergencyMs === NO_EMERGENCY) {
    next = { active: false, source: BY_NOBODY, since: 0, until: 0, calmSince: 0 };
  }
  writeCluster(redis, keys[0]!, cluster);
  writeEmergency(redis, keys[0]!, next);
  return [
    OK,
    next.active ? 1 : 0,
    next.active === before.active ? 0 : 1,
    next.source,
    Math.floor(next.since / 1000),
    next.active && next.until > 0 ? Math.ceil((next.until - cluster.now) / 1000) : 0,
    Math.floor(used * MICRO),
  ];
}

/**
 * Turns the emergency on at an operator's request. Takes effect with the next call of each node.
 *
 * KEYS  1 cluster · 2 saved reply of this operation
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms)
 *       4 duration (ms; 0 for until it is turned off) · 5 reason · 6 operator
 * Reply code · changed (0 or 1) · since (ms since 1970) · until (ms since 1970; 0 for no end)
 *
 * If it is already on, its end, reason and operator are replaced. A repeated operation gets the same reply.
 */
export function emergencyOn(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 2) return invalid("keys");
  const { fault, numbers } = readClusterCall(argv, REASON, 2);
  if (fault !== "") return invalid(fault);
  const duration = numbers[DURATION_MS]!;
  if (!isWithin(duration, 0, MAX_DURATION_MS)) return invalid("duration_ms");
  const before = savedReply(redis, keys[1]!);
  if (before.length > 0) return before;

  const cluster = readCluster(redis, keys[0]!, numbers);
  const changed = cluster.emergencyMs === NO_EMERGENCY;
  const since = changed ? cluster.now : readEmergency(redis, keys[0]!).since;
  const until = duration === 0 ? 0 : cluster.now + duration * 1000;
  writeCluster(redis, keys[0]!, cluster);
  writeEmergency(redis, keys[0]!, { active: true, source: BY_OPERATOR, since, until, calmSince: 0 });
  redis.call("HSET", keys[0]!, "em_reason", argv[REASON]!, "em_operator", argv[OPERATOR]!);
  const reply = [OK, changed ? 1 : 0, Math.floor(since / 1000), Math.floor(until / 1000)];
  return saveReply(redis, keys[1]!, reply);
}

/**
 * Turns the emergency off, however it was started. If usage is still too high, the next check turns it on again.
 *
 * KEYS  1 cluster · 2 saved reply of this operation
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms)
 * Reply code · changed (0 or 1)
 *
 * A repeated operation gets the same reply, and does not end an emergency that started in between.
 */
export function emergencyOff(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 2) return invalid("keys");
  const { fault, numbers } = readClusterCall(argv, CLUSTER_ARGUMENTS, 0);
  if (fault !== "") return invalid(fault);
  const before = savedReply(redis, keys[1]!);
  if (before.length > 0) return before;

  const cluster = readCluster(redis, keys[0]!, numbers);
  writeCluster(redis, keys[0]!, cluster);
  writeEmergency(redis, keys[0]!, { active: false, source: BY_NOBODY, since: 0, until: 0, calmSince: 0 });
  redis.call("HDEL", keys[0]!, "em_reason", "em_operator");
  return saveReply(redis, keys[1]!, [OK, cluster.emergencyMs === NO_EMERGENCY ? 0 : 1]);
}
