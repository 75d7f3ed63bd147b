/**
 * Turns the emergency off, both stages, however it was started. If usage is still too high, the next check turns it on again.
 *
 * A repeated operation gets the same reply, and does not end an emergency that started in between.
 */
import { OK } from "../core/codes.js";
import { BY_NOBODY } from "../core/emergency.js";
import {
  CLUSTER,
  checkCluster,
  NO_EMERGENCY,
  readCluster,
  writeCluster,
  writeEmergency,
  writeStopped,
} from "./common/cluster.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import { ALWAYS_OK, flag, invalid, operation, type ReplyOf, readCall } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export const EMERGENCY_OFF = operation({
  keys: ["cluster", "operation"],
  arguments: [CLUSTER],
  reply: [ALWAYS_OK, flag("changed")],
});

export function emergencyOff(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = checkCluster(readCall(EMERGENCY_OFF, keys, argv));
  if (fault !== "") return invalid(fault);
  const before = savedReply(redis, key.operation);
  if (before.length > 0) return before;

  const cluster = readCluster(redis, key.cluster, values);
  writeCluster(redis, key.cluster, cluster);
  writeEmergency(redis, key.cluster, { active: false, source: BY_NOBODY, since: 0, until: 0, calmSince: 0 });
  writeStopped(redis, key.cluster, { since: 0, calmSince: 0 });
  redis.call("HDEL", key.cluster, "em_reason", "em_operator");
  const isOff = cluster.emergencyMs === NO_EMERGENCY && !cluster.burstsStopped;
  const reply: ReplyOf<typeof EMERGENCY_OFF> = [OK, isOff ? 0 : 1];
  return saveReply(redis, key.operation, reply);
}
