/**
 * Borrows tokens for an app at an operator's request: adds them to its bucket and 120 % of them to its debt.
 *
 * Borrows all of `amount` or nothing. A repeated operation gets the same reply and borrows nothing more.
 */
import { borrowable, lend, lendable } from "../core/borrow.js";
import { highestLevel, MAX_TOKENS, MICRO, wholeTokens } from "../core/bucket.js";
import {
  BORROW_LIMIT_EXCEEDED,
  BORROWING_DISABLED,
  BUCKET_FULL,
  CLUSTER_EXHAUSTED,
  EMERGENCY_BLOCKED,
  OK,
} from "../core/codes.js";
import { APP, type App, type AppNumbers, checkApp, configuredRate, readApp, writeApp } from "./common/app.js";
import { CLUSTER, type Cluster, isWithin, mayLend, readCluster, writeCluster } from "./common/cluster.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import { flag, invalid, operation, type ReplyOf, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** `debt` in whole tokens, rounded up. `borrowable`: what may still be borrowed. */
export const BORROW = operation({
  keys: ["cluster", "app", "operation"],
  arguments: [CLUSTER, APP, [flag("borrow"), "amount"]],
  reply: [text("code"), "borrowed", "debt", "remaining", "borrowable"],
});

function borrowCode(app: App, cluster: Cluster, request: AppNumbers & { borrow: number; amount: number }): string {
  const { borrow, amount } = request;
  if (borrow !== 1) return BORROWING_DISABLED;
  if (!mayLend(cluster)) return EMERGENCY_BLOCKED;
  if (amount > borrowable(app.debt, configuredRate(request))) return BORROW_LIMIT_EXCEEDED;
  if (app.tokens + amount * MICRO > highestLevel(app)) return BUCKET_FULL;
  if (amount > lendable(cluster)) return CLUSTER_EXHAUSTED;
  return OK;
}

export function borrow(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = checkApp(readCall(BORROW, keys, argv));
  if (fault !== "") return invalid(fault);
  const { amount } = values;
  if (!isWithin(values.borrow, 0, 1)) return invalid("borrow");
  if (!isWithin(amount, 1, MAX_TOKENS)) return invalid("amount");
  const before = savedReply(redis, key.operation);
  if (before.length > 0) return before;

  const cluster = readCluster(redis, key.cluster, values);
  const app = readApp(redis, key.app, values, cluster);
  const code = borrowCode(app, cluster, values);
  if (code === OK) lend(app, amount);
  writeApp(redis, key.app, app, values);
  writeCluster(redis, key.cluster, cluster);
  const debt = Math.ceil(app.debt / MICRO);
  const left = borrowable(app.debt, configuredRate(values));
  const reply: ReplyOf<typeof BORROW> = [code, code === OK ? amount : 0, debt, wholeTokens(app.tokens), left];
  return saveReply(redis, key.operation, reply);
}
