/**
 * Adds tokens to a bucket, for an operator. What does not fit beside the tokens that nodes hold is lost.
 *
 * A repeated operation gets the same reply and adds nothing more.
 */
import { giveBack, MAX_TOKENS, wholeTokens } from "../core/bucket.js";
import { OK } from "../core/codes.js";
import { APP, checkApp, readApp, writeApp } from "./common/app.js";
import { CLUSTER, isWithin, readCluster, writeCluster } from "./common/cluster.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import { invalid, operation, type ReplyOf, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

export const CREDIT = operation({
  keys: ["cluster", "app", "operation"],
  arguments: [CLUSTER, APP, ["amount"]],
  reply: [text("code"), "added", "remaining"],
});

export function credit(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = checkApp(readCall(CREDIT, keys, argv));
  if (fault !== "") return invalid(fault);
  const { amount } = values;
  if (!isWithin(amount, 1, MAX_TOKENS)) return invalid("amount");
  const before = savedReply(redis, key.operation);
  if (before.length > 0) return before;

  const cluster = readCluster(redis, key.cluster, values);
  const app = readApp(redis, key.app, values, cluster);
  const had = wholeTokens(app.tokens);
  giveBack(app, amount);
  writeApp(redis, key.app, app, values);
  writeCluster(redis, key.cluster, cluster);
  const has = wholeTokens(app.tokens);
  const reply: ReplyOf<typeof CREDIT> = [OK, has - had, has];
  return saveReply(redis, key.operation, reply);
}
