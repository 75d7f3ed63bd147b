/**
 * Refunds tokens that a node has spent: it does not learn itself that an exchange has cost less.
 *
 * KEYS  1 cluster · 2 app · 3 ledger of the node · 4 saved reply of this operation
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 *       id · burst · guaranteed (micro-tokens/s) · priority · fill (µs) · amount
 * Reply code · refunded · remaining
 *
 * Refunds as much of `amount` as the node has reported as spent and was not refunded before. L1 gets back what it has paid of
 * that. The node's counters do not change. A repeated operation gets the same reply and refunds nothing more.
 */
import { MAX_TOKENS, wholeTokens } from "../core/bucket.js";
import { OK } from "../core/codes.js";
import { LIMIT_NUMBERS, readApp, refundToApp, writeApp } from "./common/app.js";
import { readAppCall } from "./common/app-call.js";
import { CLUSTER_ARGUMENTS, isWithin, readCluster, writeCluster } from "./common/cluster.js";
import { payBack } from "./common/l1.js";
import { readLedger, refundSpent } from "./common/ledger.js";
import { invalid } from "./common/message.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const AMOUNT = LIMIT_NUMBERS;

export function refund(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length !== 4) return invalid("keys");
  const { fault, limits, request } = readAppCall(argv, 1, 0);
  if (fault !== "") return invalid(fault);
  if (!isWithin(request[AMOUNT]!, 1, MAX_TOKENS)) return invalid("amount");
  const before = savedReply(redis, keys[3]!);
  if (before.length > 0) return before;

  const cluster = readCluster(redis, keys[0]!, limits);
  const app = readApp(redis, keys[1]!, request, cluster);
  const ledger = readLedger(redis, keys[2]!, [argv[CLUSTER_ARGUMENTS]!]);
  const { refunded, ofL1 } = refundSpent(ledger, ledger.entries[0]!, request[AMOUNT]!);
  // The caller may ask again: the node may not have reported the spending yet.
  if (refunded === 0) return [OK, 0, wholeTokens(app.tokens)];
  refundToApp(app, refunded);
  payBack(app, cluster, ofL1);
  writeApp(redis, keys[1]!, app, request);
  writeCluster(redis, keys[0]!, cluster);
  return saveReply(redis, keys[3]!, [OK, refunded, wholeTokens(app.tokens)]);
}
