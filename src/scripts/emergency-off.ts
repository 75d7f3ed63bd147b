/**
 * Turns the emergency off, both stages, however it was started. If usage is still too high, the next check turns it on again.
 *
 * KEYS  1 cluster · 2 saved reply of this operation
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 * Reply code · changed (0 or 1)
 *
 * A repeated operation gets the same reply, and does not end an emergency that started in between.
 */
import { OK } from "../core/codes.js";
import { BY_NOBODY } from "../core/emergency.js";
import {
  CLUSTER_ARGUMENTS,
  NO_EMERGENCY,
  readCluster,
  readClusterCall,
  writeCluster,
  writeEmergency,
  writeStopped,
} from "./common/cluster.js";
import { invalid } from "./common/message.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function emergencyOff(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 2) return invalid("keys");
  const { fault, numbers } = readClusterCall(argv, CLUSTER_ARGUMENTS, 0);
  if (fault !== "") return invalid(fault);
  const before = savedReply(redis, keys[1]!);
  if (before.length > 0) return before;

  const cluster = readCluster(redis, keys[0]!, numbers);
  writeCluster(redis, keys[0]!, cluster);
  writeEmergency(redis, keys[0]!, { active: false, source: BY_NOBODY, since: 0, until: 0, calmSince: 0 });
  writeStopped(redis, keys[0]!, { since: 0, calmSince: 0 });
  redis.call("HDEL", keys[0]!, "em_reason", "em_operator");
  return saveReply(redis, keys[1]!, [OK, cluster.emergencyMs === NO_EMERGENCY && !cluster.burstsStopped ? 0 : 1]);
}
