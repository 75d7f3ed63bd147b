/** How a node's counters are recorded without granting: `report`, and `report-known` when the store is out of memory. */
import { wholeTokens } from "../../core/bucket.js";
import { OK } from "../../core/codes.js";
import { wholeNumber } from "../../core/platform.js";
import type { RedisApi, ScriptReply } from "../redis-api.js";
import { MESSAGE_NUMBERS, readApp, writeApp } from "./app.js";
import { isWithin, liveNodes, MAX_COUNTER, readCluster, writeCluster } from "./cluster.js";
import { applyReport } from "./counters.js";
import { LEDGER_RETENTION_MS, type NodeState, noteMissed, readLedger, writeLedger } from "./ledger.js";
import { invalid, isOld, markSeen, NODE_KEYS, readMessage, replyHead, replyToOld } from "./message.js";
import { packReply } from "./saved-reply.js";

const LEAVE_ARGUMENT = 6;
const FIRST_APP = 7;
/** The id and the numbers of an app. */
const WIDTH = MESSAGE_NUMBERS + 1;

/** Which counters are recorded: all, or those of known nodes and of apps that their ledgers contain, which creates no key. */
export type Recorded = "all" | "known";

export function recordReport(redis: RedisApi, keys: string[], argv: string[], recorded: Recorded): ScriptReply {
  const message = readMessage(keys, argv, FIRST_APP, WIDTH);
  if (message.fault !== "") return invalid(message.fault);
  const leave = wholeNumber(argv[LEAVE_ARGUMENT]!);
  if (!isWithin(leave, 0, 1)) return invalid("leave");
  const { head, seq, node, apps, requests } = message;
  const cluster = readCluster(redis, keys[0]!, head);
  const ledger = readLedger(redis, keys[2]!, apps);
  const state: NodeState = { cluster, ledger };
  if (isOld(ledger, seq)) return replyToOld(redis, keys, message, state);
  if (recorded === "known" && !ledger.known) return replyUnrecorded(redis, keys, state);

  noteMissed(ledger, seq, cluster.now);
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
    if (recorded === "known" && !entry.known) {
      entry.skipped = true;
      reply.push(0);
      reply.push(0);
      continue;
    }
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

/** The reply to a node that the store does not know, and for which nothing was written. */
function replyUnrecorded(redis: RedisApi, keys: string[], state: NodeState): ScriptReply {
  const reply = replyHead(OK, liveNodes(redis, keys[1]!, state.cluster), state);
  for (let i = 0; i < state.ledger.entries.length; i++) {
    reply.push(0);
    reply.push(0);
  }
  return reply;
}
