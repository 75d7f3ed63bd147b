/**
 * Starts or ends the two stages of the automatic emergency by the cluster's usage, and advances the clock of the nodes.
 * Services call it a few times per second.
 *
 * A repeated call reports the emergency as unchanged.
 */
import { MICRO } from "../core/bucket.js";
import { OK } from "../core/codes.js";
import { BY_NOBODY, BY_USAGE, type Emergency, nextEmergency, nextStoppedBursts, usage } from "../core/emergency.js";
import {
  CLUSTER,
  checkCluster,
  isWithin,
  MAX_DURATION_MS,
  NO_EMERGENCY,
  readCluster,
  readEmergency,
  readOrder,
  readStopped,
  wasOwnShort,
  writeCluster,
  writeEmergency,
  writeStopped,
} from "./common/cluster.js";
import { ALWAYS_OK, flag, invalid, micro, operation, type ReplyOf, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/**
 * `automatic`: start and end it by usage; otherwise end what usage has started. If there are several shards, `usage` (in
 * millionths) and `ownShort` are about all of them, otherwise 0. In the reply, `source` is none, operator or usage, `sinceMs` is on
 * the store's clock, `leftMs` is 0 for no end, and `reason` and `operator` are empty unless an operator started it.
 */
export const EMERGENCY_CHECK = operation({
  keys: ["cluster"],
  arguments: [CLUSTER, ["cooldownMs", flag("automatic"), "usage", flag("ownShort")]],
  reply: [
    ALWAYS_OK,
    flag("active"),
    flag("changed"),
    text("source"),
    "sinceMs",
    "leftMs",
    micro("usage"),
    text("reason"),
    text("operator"),
    flag("burstsStopped"),
  ],
});

export function emergencyCheck(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = checkCluster(readCall(EMERGENCY_CHECK, keys, argv));
  if (fault !== "") return invalid(fault);
  if (!isWithin(values.cooldownMs, 0, MAX_DURATION_MS)) return invalid("cooldown_ms");
  if (!isWithin(values.automatic, 0, 1)) return invalid("automatic");
  if (!isWithin(values.usage, 0, MICRO)) return invalid("usage");
  if (!isWithin(values.ownShort, 0, 1)) return invalid("own_short");

  const cluster = readCluster(redis, key.cluster, values);
  const before = readEmergency(redis, key.cluster);
  // Tokens on leases are not used yet.
  const own = usage(cluster.tokens + cluster.held, cluster.capacity);
  const used = cluster.shards === 1 ? own : values.usage / MICRO;
  const ownShort = cluster.shards === 1 ? wasOwnShort(redis, key.cluster, cluster.now) : values.ownShort === 1;
  const cooldown = values.cooldownMs * 1000;
  const stoppedBefore = readStopped(redis, key.cluster);
  let stopped = stoppedBefore;
  let next: Emergency = before;
  if (values.automatic === 1) {
    stopped = nextStoppedBursts(stoppedBefore, used, cluster.now, cooldown);
    next = nextEmergency(before, { used, stopped, ownShort }, cluster.now, cooldown);
  } else {
    stopped = { since: 0, calmSince: 0 };
    if (cluster.emergencyMs === NO_EMERGENCY || before.source === BY_USAGE) {
      next = { active: false, source: BY_NOBODY, since: 0, until: 0, calmSince: 0 };
    }
  }
  const changed = next.active !== before.active || stopped.since > 0 !== stoppedBefore.since > 0;
  writeCluster(redis, key.cluster, cluster);
  writeStopped(redis, key.cluster, stopped);
  writeEmergency(redis, key.cluster, next);
  const order = readOrder(redis, key.cluster, next);
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
  ] satisfies ReplyOf<typeof EMERGENCY_CHECK>;
}
