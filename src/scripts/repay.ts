/**
 * Repays debt from an app's bucket at once, instead of through refill.
 *
 * KEYS  1 cluster · 2 app · 3 saved reply of this operation
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 *       id · burst · guaranteed (micro-tokens/s) · priority · fill (µs) · amount
 * Reply code · repaid · debt (whole tokens, rounded up) · remaining
 *
 * Pays as much of `amount` as is owed and available. A repeated operation gets the same reply and pays nothing more.
 */
import { repayFrom } from "../core/borrow.js";
import { MAX_TOKENS, MICRO, wholeTokens } from "../core/bucket.js";
import { OK } from "../core/codes.js";
import { LIMIT_NUMBERS, readApp, writeApp } from "./common/app.js";
import { readAppCall } from "./common/app-call.js";
import { isWithin, readCluster, writeCluster } from "./common/cluster.js";
import { invalid } from "./common/message.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const AMOUNT = LIMIT_NUMBERS;

export function repay(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 3) return invalid("keys");
  const { fault, limits, request } = readAppCall(argv, 1, 0);
  if (fault !== "") return invalid(fault);
  if (!isWithin(request[AMOUNT]!, 1, MAX_TOKENS)) return invalid("amount");
  const before = savedReply(redis, keys[2]!);
  if (before.length > 0) return before;

  const cluster = readCluster(redis, keys[0]!, limits);
  const app = readApp(redis, keys[1]!, request, cluster);
  const repaid = repayFrom(app, request[AMOUNT]!);
  writeApp(redis, keys[1]!, app, request);
  writeCluster(redis, keys[0]!, cluster);
  return saveReply(redis, keys[2]!, [OK, repaid, Math.ceil(app.debt / MICRO), wholeTokens(app.tokens)]);
}
