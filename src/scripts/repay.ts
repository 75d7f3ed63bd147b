/**
 * Repays debt from an app's bucket at once, instead of through refill.
 *
 * Pays as much of `amount` as is owed and available. A repeated operation gets the same reply and pays nothing more.
 */
import { repayFrom } from "../core/borrow.js";
import { MAX_TOKENS, MICRO, wholeTokens } from "../core/bucket.js";
import { OK } from "../core/codes.js";
import { APP, checkApp, readApp, writeApp } from "./common/app.js";
import { CLUSTER, isWithin, readCluster, writeCluster } from "./common/cluster.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import { invalid, operation, type ReplyOf, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** `debt` in whole tokens, rounded up. */
export const REPAY = operation({
  keys: ["cluster", "app", "operation"],
  arguments: [CLUSTER, APP, ["amount"]],
  reply: [text("code"), "repaid", "debt", "remaining"],
});

export function repay(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = checkApp(readCall(REPAY, keys, argv));
  if (fault !== "") return invalid(fault);
  const { amount } = values;
  if (!isWithin(amount, 1, MAX_TOKENS)) return invalid("amount");
  const before = savedReply(redis, key.operation);
  if (before.length > 0) return before;

  const cluster = readCluster(redis, key.cluster, values);
  const app = readApp(redis, key.app, values, cluster);
  const repaid = repayFrom(app, amount);
  writeApp(redis, key.app, app, values);
  writeCluster(redis, key.cluster, cluster);
  const reply: ReplyOf<typeof REPAY> = [OK, repaid, Math.ceil(app.debt / MICRO), wholeTokens(app.tokens)];
  return saveReply(redis, key.operation, reply);
}
