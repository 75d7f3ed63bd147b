/**
 * Adds tokens to a bucket, for an operator. What does not fit beside the tokens that nodes hold is lost.
 *
 * KEYS  1 cluster · 2 app · 3 saved reply of this operation
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 *       id · burst · guaranteed (micro-tokens/s) · priority · fill (µs) · amount
 * Reply code · added · remaining
 *
 * A repeated operation gets the same reply and adds nothing more.
 */
import { giveBack, MAX_TOKENS, wholeTokens } from "../core/bucket.js";
import { OK } from "../core/codes.js";
import { LIMIT_NUMBERS, readApp, writeApp } from "./common/app.js";
import { readAppCall } from "./common/app-call.js";
import { isWithin, readCluster, writeCluster } from "./common/cluster.js";
import { invalid } from "./common/message.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const AMOUNT = LIMIT_NUMBERS;

export function credit(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 3) return invalid("keys");
  const { fault, limits, request } = readAppCall(argv, 1, 0);
  if (fault !== "") return invalid(fault);
  if (!isWithin(request[AMOUNT]!, 1, MAX_TOKENS)) return invalid("amount");
  const before = savedReply(redis, keys[2]!);
  if (before.length > 0) return before;

  const cluster = readCluster(redis, keys[0]!, limits);
  const app = readApp(redis, keys[1]!, request, cluster);
  const had = wholeTokens(app.tokens);
  giveBack(app, request[AMOUNT]!);
  writeApp(redis, keys[1]!, app, request);
  writeCluster(redis, keys[0]!, cluster);
  return saveReply(redis, keys[2]!, [OK, wholeTokens(app.tokens) - had, wholeTokens(app.tokens)]);
}
