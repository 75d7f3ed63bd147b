/**
 * Reads the current levels of an app and of the cluster. Changes nothing.
 *
 * KEYS  1 cluster · 2 app
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 *       id · burst · guaranteed (micro-tokens/s) · priority · fill (µs)
 * Reply code · app level · debt · cluster level (all three in micro-tokens, rounded down)
 *       granted · spent · returned (tokens since the bucket began) · emergency (0 or 1) · emergency left (ms)
 */
import { OK } from "../core/codes.js";
import { readApp } from "./common/app.js";
import { readAppCall } from "./common/app-call.js";
import { NO_EMERGENCY, readCluster } from "./common/cluster.js";
import { invalid } from "./common/message.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export function inspect(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 2) return invalid("keys");
  const { fault, limits, request } = readAppCall(argv, 0, 0);
  if (fault !== "") return invalid(fault);
  const cluster = readCluster(redis, keys[0]!, limits);
  const app = readApp(redis, keys[1]!, request, cluster);
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
  ];
}
