/**
 * Copies the emergency of the first shard to another one.
 *
 * KEYS  1 cluster
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 *       5 active (0 or 1) · 6 since (ms since 1970) · 7 left (ms; 0 for no end) · 8 bursts stopped (0 or 1)
 *       9 source (none, operator, usage) · 10 reason · 11 operator
 * Reply code
 */
import { OK } from "../core/codes.js";
import { BY_NOBODY } from "../core/emergency.js";
import {
  CLUSTER_ARGUMENTS,
  isWithin,
  MAX_COUNTER,
  MAX_DURATION_MS,
  readCluster,
  readClusterCall,
  writeCluster,
  writeEmergency,
  writeOrder,
  writeStopped,
} from "./common/cluster.js";
import { invalid } from "./common/message.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const ACTIVE = CLUSTER_ARGUMENTS;
const SINCE_MS = CLUSTER_ARGUMENTS + 1;
const LEFT_MS = CLUSTER_ARGUMENTS + 2;
const STOPPED = CLUSTER_ARGUMENTS + 3;
const SOURCE = CLUSTER_ARGUMENTS + 4;
const REASON = CLUSTER_ARGUMENTS + 5;
const OPERATOR = CLUSTER_ARGUMENTS + 6;

export function emergencyCopy(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 1) return invalid("keys");
  const { fault, numbers } = readClusterCall(argv, SOURCE, 3);
  if (fault !== "") return invalid(fault);
  if (!isWithin(numbers[ACTIVE]!, 0, 1)) return invalid("active");
  if (!isWithin(numbers[SINCE_MS]!, 0, MAX_COUNTER / 1000)) return invalid("since_ms");
  if (!isWithin(numbers[LEFT_MS]!, 0, MAX_DURATION_MS)) return invalid("left_ms");
  if (!isWithin(numbers[STOPPED]!, 0, 1)) return invalid("bursts_stopped");
  // Refilled under the old state up to now.
  const cluster = readCluster(redis, keys[0]!, numbers);
  writeCluster(redis, keys[0]!, cluster);
  const active = numbers[ACTIVE] === 1;
  const left = numbers[LEFT_MS]!;
  writeEmergency(redis, keys[0]!, {
    active,
    source: active ? argv[SOURCE]! : BY_NOBODY,
    since: numbers[SINCE_MS]! * 1000,
    until: active && left > 0 ? cluster.now + left * 1000 : 0,
    calmSince: 0,
  });
  writeStopped(redis, keys[0]!, { since: numbers[STOPPED] === 1 ? cluster.now : 0, calmSince: 0 });
  writeOrder(redis, keys[0]!, { reason: argv[REASON]!, operator: argv[OPERATOR]! });
  return [OK];
}
