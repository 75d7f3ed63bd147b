/**
 * Reads the current levels of an app and of the cluster. Changes nothing.
 */
import { OK } from "../core/codes.js";
import { APP, checkApp, readApp } from "./common/app.js";
import { CLUSTER, NO_EMERGENCY, readCluster } from "./common/cluster.js";
import { ALWAYS_OK, flag, invalid, micro, operation, type ReplyOf, readCall } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** Levels are rounded down to micro-tokens. `granted`, `spent` and `returned`: since the bucket began. */
export const INSPECT = operation({
  keys: ["cluster", "app"],
  arguments: [CLUSTER, APP],
  reply: [
    ALWAYS_OK,
    micro("tokens"),
    micro("debt"),
    micro("clusterTokens"),
    "granted",
    "spent",
    "returned",
    flag("emergency"),
    "emergencyLeftMs",
  ],
});

export function inspect(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = checkApp(readCall(INSPECT, keys, argv));
  if (fault !== "") return invalid(fault);
  const cluster = readCluster(redis, key.cluster, values);
  const app = readApp(redis, key.app, values, cluster);
  return [
    OK,
    Math.floor(app.tokens),
    Math.floor(app.debt),
    Math.floor(cluster.tokens),
    app.granted,
    app.spent,
    app.returned,
    cluster.emergencyMs === NO_EMERGENCY ? 0 : 1,
    Math.max(cluster.emergencyMs, 0),
  ] satisfies ReplyOf<typeof INSPECT>;
}
