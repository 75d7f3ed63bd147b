/**
 * `report` records the counters of a node without granting: charges what was spent without cover and takes back what the node
 * returns. A repeated seq gets the same reply; an older one changes nothing.
 *
 * `report-known` does so when Redis is out of memory, but only for a node that has a ledger and for apps in it, and it creates
 * nothing. Others are not charged, unless the node reports them again when there is memory: `granted` is 0 then.
 */
import { wholeTokens } from "../core/bucket.js";
import { OK } from "../core/codes.js";
import { wholeNumber } from "../core/platform.js";
import { APP, COUNTERS, readApp, writeApp } from "./common/app.js";
import { CLUSTER, isWithin, liveNodes, MAX_COUNTER, readCluster, writeCluster } from "./common/cluster.js";
import { applyReport } from "./common/counters.js";
import { LEDGER_RETENTION_MS, type NodeState, noteMissed, readLedger, writeLedger } from "./common/ledger.js";
import {
  isOld,
  MESSAGE_KEYS,
  type MessageLayout,
  markSeen,
  NODE_REPLY,
  readMessage,
  replyHead,
  replyToOld,
  SENDER,
} from "./common/message.js";
import { packReply } from "./common/saved-reply.js";
import { fields, flag, invalid, numberNames, operation, widthOf } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/**
 * `leave`: the node stops; what it still holds of these apps goes back and its epoch is closed. `granted` is cumulative. If the
 * code is stale_message, the reply has no items.
 */
export const REPORT = operation({
  keys: MESSAGE_KEYS,
  moreKeys: "app",
  arguments: [CLUSTER, SENDER, [flag("leave")]],
  itemArguments: [APP, COUNTERS],
  reply: NODE_REPLY,
  itemReply: fields("granted", "remaining"),
});

const LEAVE_AT = widthOf([CLUSTER, SENDER]);
const LAYOUT: MessageLayout<never> = {
  itemsAt: widthOf(REPORT.arguments),
  names: numberNames(REPORT.itemArguments),
  own: [],
};

export function report(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  return recordReport(redis, keys, argv, "all");
}

export function reportKnown(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  return recordReport(redis, keys, argv, "known");
}

/** Which counters are recorded: all, or those of known nodes and of apps that their ledgers contain, which creates no key. */
type Recorded = "all" | "known";

function recordReport(redis: RedisApi, keys: string[], argv: string[], recorded: Recorded): ScriptReply {
  const message = readMessage(keys, argv, LAYOUT);
  if (message.fault !== "") return invalid(message.fault);
  const leave = wholeNumber(argv[LEAVE_AT]!);
  if (!isWithin(leave, 0, 1)) return invalid("leave");
  const { key, seq, node, apps, requests } = message;
  const cluster = readCluster(redis, key.cluster, message.cluster);
  const ledger = readLedger(redis, key.ledger, apps);
  const state: NodeState = { cluster, ledger };
  if (isOld(ledger, seq)) return replyToOld(redis, message, state);
  if (recorded === "known" && !ledger.known) return replyUnrecorded(redis, key.nodes, state);

  noteMissed(ledger, seq, cluster.now);
  const code = markSeen(redis, key.nodes, node, state);
  if (leave === 1) {
    ledger.closed = true;
    // Dead, until the tokens of all its apps are returned, also of those that are not in this message.
    redis.call("ZADD", key.nodes, cluster.clock - cluster.nodeTtl - 1, node);
  }
  const reply: ScriptReply = replyHead(code, liveNodes(redis, key.nodes, cluster), state);
  for (let i = 0; i < apps.length; i++) {
    const appKey = keys[MESSAGE_KEYS.length + i]!;
    const request = requests[i]!;
    const entry = ledger.entries[i]!;
    if (recorded === "known" && !entry.known) {
      entry.skipped = true;
      reply.push(0);
      reply.push(0);
      continue;
    }
    const app = readApp(redis, appKey, request, cluster);
    applyReport(state, entry, request, app);
    writeApp(redis, appKey, app, request);
    reply.push(entry.granted);
    reply.push(wholeTokens(app.tokens));
  }
  writeCluster(redis, key.cluster, cluster);
  ledger.seq = seq;
  if (leave === 1 && ledger.held === 0) redis.call("ZREM", key.nodes, node);
  writeLedger(redis, key.ledger, ledger, packReply(reply, MAX_COUNTER));
  if (ledger.closed) redis.call("PEXPIRE", key.ledger, LEDGER_RETENTION_MS);
  return reply;
}

/** The reply to a node that the store does not know, and for which nothing was written. */
function replyUnrecorded(redis: RedisApi, nodesKey: string, state: NodeState): ScriptReply {
  const reply: ScriptReply = replyHead(OK, liveNodes(redis, nodesKey, state.cluster), state);
  for (let i = 0; i < state.ledger.entries.length; i++) {
    reply.push(0);
    reply.push(0);
  }
  return reply;
}
