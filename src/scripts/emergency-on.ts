/**
 * Turns the emergency on at an operator's request. Takes effect with the next call of each node.
 *
 * KEYS  1 cluster · 2 saved reply of this operation
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 *       5 duration (ms; 0 for until it is turned off) · 6 reason · 7 operator
 * Reply code · changed (0 or 1) · since (ms since 1970) · until (ms since 1970; 0 for no end)
 *
 * If it is already on, its end, reason and operator are replaced. A repeated operation gets the same reply.
 */
import { OK } from "../core/codes.js";
import { BY_OPERATOR } from "../core/emergency.js";
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
  writeOrder,
} from "./common/cluster.js";
import { invalid } from "./common/message.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const DURATION_MS = CLUSTER_ARGUMENTS;
const REASON = CLUSTER_ARGUMENTS + 1;
const OPERATOR = CLUSTER_ARGUMENTS + 2;

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
  writeOrder(redis, keys[0]!, { reason: argv[REASON]!, operator: argv[OPERATOR]! });
  const reply = [OK, changed ? 1 : 0, Math.floor(since / 1000), Math.floor(until / 1000)];
  return saveReply(redis, keys[1]!, reply);
}
