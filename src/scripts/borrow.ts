/**
 * Borrows tokens for an app at an operator's request: adds them to its bucket and 120 % of them to its debt.
 *
 * KEYS  1 cluster · 2 app · 3 saved reply of this operation
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 *       id · burst · guaranteed (micro-tokens/s) · priority · fill (µs) · borrowing allowed (0 or 1) · amount
 * Reply code · borrowed · debt (whole tokens, rounded up) · remaining · still borrowable
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
import { type App, configuredRate, LIMIT_NUMBERS, readApp, writeApp } from "./common/app.js";
import { readAppCall } from "./common/app-call.js";
import { type Cluster, isWithin, mayLend, readCluster, writeCluster } from "./common/cluster.js";
import { invalid } from "./common/message.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const ALLOWED = LIMIT_NUMBERS;
const AMOUNT = LIMIT_NUMBERS + 1;

function borrowCode(app: App, cluster: Cluster, request: number[]): string {
  const amount = request[AMOUNT]!;
  if (request[ALLOWED] !== 1) return BORROWING_DISABLED;
  if (!mayLend(cluster)) return EMERGENCY_BLOCKED;
  if (amount > borrowable(app.debt, configuredRate(request))) return BORROW_LIMIT_EXCEEDED;
  if (app.tokens + amount * MICRO > highestLevel(app)) return BUCKET_FULL;
  if (amount > lendable(cluster)) return CLUSTER_EXHAUSTED;
  return OK;
}

export function borrow(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 3) return invalid("keys");
  const { fault, limits, request } = readAppCall(argv, 2, 0);
  if (fault !== "") return invalid(fault);
  if (!isWithin(request[ALLOWED]!, 0, 1)) return invalid("borrow");
  if (!isWithin(request[AMOUNT]!, 1, MAX_TOKENS)) return invalid("amount");
  const before = savedReply(redis, keys[2]!);
  if (before.length > 0) return before;

  const cluster = readCluster(redis, keys[0]!, limits);
  const app = readApp(redis, keys[1]!, request, cluster);
  const code = borrowCode(app, cluster, request);
  if (code === OK) lend(app, request[AMOUNT]!);
  writeApp(redis, keys[1]!, app, request);
  writeCluster(redis, keys[0]!, cluster);
  return saveReply(redis, keys[2]!, [
    code,
    code === OK ? request[AMOUNT]! : 0,
    Math.ceil(app.debt / MICRO),
    wholeTokens(app.tokens),
    borrowable(app.debt, configuredRate(request)),
  ]);
}
