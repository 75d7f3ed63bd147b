/**
 * Turns the emergency on at an operator's request. Takes effect with the next call of each node.
 *
 * If it is already on, its end, reason and operator are replaced. A repeated operation gets the same reply.
 */
import { OK } from "../core/codes.js";
import { BY_OPERATOR } from "../core/emergency.js";
import {
  CLUSTER,
  checkCluster,
  isWithin,
  MAX_DURATION_MS,
  NO_EMERGENCY,
  readCluster,
  readEmergency,
  writeCluster,
  writeEmergency,
  writeOrder,
} from "./common/cluster.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import { ALWAYS_OK, flag, invalid, operation, type ReplyOf, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** `durationMs` and `untilMs` 0: until it is turned off. */
export const EMERGENCY_ON = operation({
  keys: ["cluster", "operation"],
  arguments: [CLUSTER, ["durationMs", text("reason"), text("operator")]],
  reply: [ALWAYS_OK, flag("changed"), "sinceMs", "untilMs"],
});

export function emergencyOn(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = checkCluster(readCall(EMERGENCY_ON, keys, argv));
  if (fault !== "") return invalid(fault);
  const { durationMs, reason, operator } = values;
  if (!isWithin(durationMs, 0, MAX_DURATION_MS)) return invalid("duration_ms");
  const before = savedReply(redis, key.operation);
  if (before.length > 0) return before;

  const cluster = readCluster(redis, key.cluster, values);
  const changed = cluster.emergencyMs === NO_EMERGENCY;
  const since = changed ? cluster.now : readEmergency(redis, key.cluster).since;
  const until = durationMs === 0 ? 0 : cluster.now + durationMs * 1000;
  writeCluster(redis, key.cluster, cluster);
  writeEmergency(redis, key.cluster, { active: true, source: BY_OPERATOR, since, until, calmSince: 0 });
  writeOrder(redis, key.cluster, { reason, operator });
  const sinceMs = Math.floor(since / 1000);
  const reply: ReplyOf<typeof EMERGENCY_ON> = [OK, changed ? 1 : 0, sinceMs, Math.floor(until / 1000)];
  return saveReply(redis, key.operation, reply);
}
