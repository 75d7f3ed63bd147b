/** Copies the emergency of the first shard to another one. */
import { OK } from "../core/codes.js";
import { BY_NOBODY } from "../core/emergency.js";
import {
  CLUSTER,
  checkCluster,
  isWithin,
  MAX_COUNTER,
  MAX_DURATION_MS,
  readCluster,
  writeCluster,
  writeEmergency,
  writeOrder,
  writeStopped,
} from "./common/cluster.js";
import { ALWAYS_OK, flag, invalid, operation, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** As in the reply of `emergency-check`. */
export const EMERGENCY_COPY = operation({
  keys: ["cluster"],
  arguments: [
    CLUSTER,
    [flag("active"), "sinceMs", "leftMs", flag("burstsStopped"), text("source"), text("reason"), text("operator")],
  ],
  reply: [ALWAYS_OK],
});

export function emergencyCopy(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = checkCluster(readCall(EMERGENCY_COPY, keys, argv));
  if (fault !== "") return invalid(fault);
  const { sinceMs, leftMs, source, reason, operator } = values;
  if (!isWithin(values.active, 0, 1)) return invalid("active");
  if (!isWithin(sinceMs, 0, MAX_COUNTER / 1000)) return invalid("since_ms");
  if (!isWithin(leftMs, 0, MAX_DURATION_MS)) return invalid("left_ms");
  if (!isWithin(values.burstsStopped, 0, 1)) return invalid("bursts_stopped");
  // Refilled under the old state up to now.
  const cluster = readCluster(redis, key.cluster, values);
  writeCluster(redis, key.cluster, cluster);
  const active = values.active === 1;
  writeEmergency(redis, key.cluster, {
    active,
    source: active ? source : BY_NOBODY,
    since: sinceMs * 1000,
    until: active && leftMs > 0 ? cluster.now + leftMs * 1000 : 0,
    calmSince: 0,
  });
  writeStopped(redis, key.cluster, { since: values.burstsStopped === 1 ? cluster.now : 0, calmSince: 0 });
  writeOrder(redis, key.cluster, { reason, operator });
  return [OK];
}
