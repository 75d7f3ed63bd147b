/** The tokens of one app: reads its levels, borrows for it, and repays its debt. */
import { borrowable, lend, lendable, repayFrom } from "../core/borrow.js";
import { MAX_TOKENS, MICRO, wholeTokens } from "../core/bucket.js";
import {
  BORROW_LIMIT_EXCEEDED,
  BORROWING_DISABLED,
  BUCKET_FULL,
  CLUSTER_EXHAUSTED,
  EMERGENCY_BLOCKED,
  OK,
} from "../core/codes.js";
import {
  type App,
  configuredCapacity,
  configuredRate,
  LIMIT_NUMBERS,
  readApp,
  readAppCall,
  writeApp,
} from "./common/app.js";
import { type Cluster, isWithin, NO_EMERGENCY, readCluster, writeCluster } from "./common/cluster.js";
import { invalid } from "./common/message.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const ALLOWED = LIMIT_NUMBERS;
const AMOUNT = LIMIT_NUMBERS + 1;
/** The only number of a repayment. */
const REPAYMENT = LIMIT_NUMBERS;

/**
 * Reads the current levels of an app and of the cluster. Changes nothing.
 *
 * KEYS  1 cluster · 2 app
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms)
 *       id · burst · guaranteed (micro-tokens/s) · priority · fill (s)
 * Reply code · app level · debt · cluster level (all three in micro-tokens, rounded down)
 *       granted · spent · returned (tokens since the bucket began) · emergency (0 or 1) · emergency left (ms)
 */
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

function borrowCode(app: App, cluster: Cluster, request: number[]): string {
  const amount = request[AMOUNT]!;
  if (request[ALLOWED] !== 1) return BORROWING_DISABLED;
  if (cluster.emergencyMs !== NO_EMERGENCY) return EMERGENCY_BLOCKED;
  if (amount > borrowable(app.debt, configuredRate(request))) return BORROW_LIMIT_EXCEEDED;
  if (app.tokens + amount * MICRO > configuredCapacity(request)) return BUCKET_FULL;
  if (amount > lendable(cluster.tokens, cluster.capacity)) return CLUSTER_EXHAUSTED;
  return OK;
}

/**
 * Borrows tokens for an app at an operator's request: adds them to its bucket and 120 % of them to its debt.
 *
 * KEYS  1 cluster · 2 app · 3 saved reply of this operation
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms)
 *       id · burst · guaranteed (micro-tokens/s) · priority · fill (s) · borrowing allowed (0 or 1) · amount
 * Reply code · borrowed · debt (whole tokens, rounded up) · remaining · still borrowable
 *
 * Borrows all of `amount` or nothing. A repeated operation gets the same reply and borrows nothing more.
 */
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

/**
 * Repays debt from an app's bucket at once, instead of through refill.
 *
 * KEYS  1 cluster · 2 app · 3 saved reply of this operation
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms)
 *       id · burst · guaranteed (micro-tokens/s) · priority · fill (s) · amount
 * Reply code · repaid · debt (whole tokens, rounded up) · remaining
 *
 * Pays as much of `amount` as is owed and available. A repeated operation gets the same reply and pays nothing more.
 */
export function repay(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 3) return invalid("keys");
  const { fault, limits, request } = readAppCall(argv, 1, 0);
  if (fault !== "") return invalid(fault);
  if (!isWithin(request[REPAYMENT]!, 1, MAX_TOKENS)) return invalid("amount");
  const before = savedReply(redis, keys[2]!);
  if (before.length > 0) return before;

  const cluster = readCluster(redis, keys[0]!, limits);
  const app = readApp(redis, keys[1]!, request, cluster);
  const repaid = repayFrom(app, request[REPAYMENT]!);
  writeApp(redis, keys[1]!, app, request);
  writeCluster(redis, keys[0]!, cluster);
  return saveReply(redis, keys[2]!, [OK, repaid, Math.ceil(app.debt / MICRO), wholeTokens(app.tokens)]);
}
