/**
 * Records the counters of a node without granting: charges what was spent without cover and takes back
 * what the node returns. Frees only, so it runs even when Redis is out of memory.
 *
 * KEYS  1 cluster · 2 nodes · 3 ledger of the node · 4… app
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards · 5 seq · 6 node@epoch
 *       6 leave (0, or 1: the node stops; what it still holds of these apps goes back and its epoch is closed)
 *       per app: id · burst · guaranteed (micro-tokens/s) · priority · fill (µs) · granted · spent · returned
 * Reply code · live nodes · emergency (0 or 1) · emergency left (ms) · known (0 or 1)
 *       and, unless the code is stale_message, per app: granted (cumulative) · remaining
 *
 * A repeated seq gets the same reply; an older one changes nothing.
 */
import { wholeTokens } from "../core/bucket.js";
import { wholeNumber } from "../core/platform.js";
import { MESSAGE_NUMBERS, readApp, writeApp } from "./common/app.js";
import { isWithin, liveNodes, MAX_COUNTER, readCluster, writeCluster } from "./common/cluster.js";
import { applyReport, LEDGER_RETENTION_MS, type NodeState, readLedger, writeLedger } from "./common/ledger.js";
import { invalid, isOld, markSeen, NODE_KEYS, readMessage, replyHead, replyToOld } from "./common/message.js";
import { packReply } from "./common/saved-reply.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const LEAVE_ARGUMENT = 6;
const FIRST_APP = 7;
/** The id and the numbers of an app. */
const WIDTH = MESSAGE_NUMBERS + 1;

export function report(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const message = readMessage(keys, argv, FIRST_APP, WIDTH);
  if (message.fault !== "") return invalid(message.fault);
  const leave = wholeNumber(argv[LEAVE_ARGUMENT]!);
  if (!isWithin(leave, 0, 1)) return invalid("leave");
  const { head, seq, node, apps, requests } = message;
  const cluster = readCluster(redis, keys[0]!, head);
  const ledger = readLedger(redis, keys[2]!, apps);
  const state: NodeState = { cluster, ledger };
  if (isOld(ledger, seq)) return replyToOld(redis, keys, message, state);

  const code = markSeen(redis, keys[1]!, node, state);
  if (leave === 1) {
    ledger.closed = true;
    // Dead, until the tokens of all its apps are returned, also of those that are not in this message.
    redis.call("ZADD", keys[1]!, cluster.clock - cluster.nodeTtl - 1, node);
  }
  const reply = replyHead(code, liveNodes(redis, keys[1]!, cluster), state);
  for (let i = 0; i < apps.length; i++) {
    const appKey = keys[NODE_KEYS + i]!;
    const entry = ledger.entries[i]!;
    const app = readApp(redis, appKey, requests[i]!, cluster);
    applyReport(state, entry, requests[i]!, app);
    writeApp(redis, appKey, app, requests[i]!);
    reply.push(entry.granted);
    reply.push(wholeTokens(app.tokens));
  }
  writeCluster(redis, keys[0]!, cluster);
  ledger.seq = seq;
  if (leave === 1 && ledger.held === 0) redis.call("ZREM", keys[1]!, node);
  writeLedger(redis, keys[2]!, ledger, packReply(reply, MAX_COUNTER));
  if (ledger.closed) redis.call("PEXPIRE", keys[2]!, LEDGER_RETENTION_MS);
  return reply;
}
