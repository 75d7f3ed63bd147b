/** A node's message: reading and validating its arguments, and the head of every reply to a node. */
import { EPOCH_CLOSED, INVALID_ARGUMENT, OK, STALE_MESSAGE } from "../../core/codes.js";
import { wholeNumbers } from "../../core/platform.js";
import type { RedisApi, ScriptReply } from "../redis-api.js";
import { appFault } from "./app.js";
import {
  CLUSTER_ARGUMENTS,
  type Cluster,
  clusterFault,
  isWithin,
  liveNodes,
  MAX_COUNTER,
  NO_EMERGENCY,
} from "./cluster.js";
import { grantedField, type Ledger, MAX_APPS } from "./ledger.js";
import { GRANTED, MESSAGE_NUMBERS, RETURNED, SPENT } from "./request.js";
import { unpackReply } from "./saved-reply.js";

/** Positions after the cluster's numbers. */
export const SEQ = CLUSTER_ARGUMENTS;
export const NODE_ARGUMENT = 4;
/** Keys before those of the apps: cluster, nodes, ledger. */
export const NODE_KEYS = 3;
/** The longest name of a node in its epoch: two ids, a separator and room to spare. */
const MAX_NODE_LENGTH = 300;

export function invalid(field: string): ScriptReply {
  return [INVALID_ARGUMENT, field];
}

/** The numbers at the start of a message; empty when there are too few arguments. */
export function headNumbers(argv: string[]): number[] {
  return argv.length > NODE_ARGUMENT ? wholeNumbers(argv, 0, NODE_ARGUMENT) : [];
}

/** The invalid argument in the head of a message, or an empty text. Each app has `width` arguments. */
export function headFault(keys: string[], argv: string[], from: number, width: number, head: number[]): string {
  if (head.length === 0) return "arguments";
  const fault = clusterFault(head);
  if (fault !== "") return fault;
  if (keys.length < NODE_KEYS) return "keys";
  const apps = keys.length - NODE_KEYS;
  if (apps > MAX_APPS) return "apps";
  if (argv.length !== from + apps * width) return "arguments";
  if (!isWithin(head[SEQ]!, 1, MAX_COUNTER)) return "seq";
  const node = argv[NODE_ARGUMENT]!;
  return node === "" || node.length > MAX_NODE_LENGTH ? "node" : "";
}

/**
 * Reads the id of each app into `apps` and its `width` − 1 numbers into `requests`. Returns the invalid argument, or an
 * empty text.
 */
export function requestsFault(
  argv: string[],
  from: number,
  width: number,
  apps: string[],
  requests: number[][],
): string {
  const count = (argv.length - from) / width;
  for (let i = 0; i < count; i++) {
    const start = from + i * width;
    const app = argv[start]!;
    const request = wholeNumbers(argv, start + 1, width - 1);
    const wrong = appFault(app, request);
    if (wrong !== "") return wrong;
    if (!isWithin(request[GRANTED]!, 0, MAX_COUNTER)) return "granted";
    if (!isWithin(request[SPENT]!, 0, MAX_COUNTER)) return "spent";
    if (!isWithin(request[RETURNED]!, 0, request[GRANTED]!)) return "returned";
    for (let j = MESSAGE_NUMBERS; j < width - 1; j++) {
      if (!isWithin(request[j]!, 0, MAX_COUNTER)) return "amount";
    }
    apps[i] = app;
    requests[i] = request;
  }
  if (count > 1) {
    // The field name, not the id, is the key: an id could be a property that every JavaScript object has.
    const seen: Record<string, boolean> = {};
    for (const app of apps) {
      if (seen[grantedField(app)] === true) return "app given twice";
      seen[grantedField(app)] = true;
    }
  }
  return "";
}

/** The head of every reply: code, live nodes, emergency (0 or 1), its remaining milliseconds. */
export function replyHead(code: string, live: number, cluster: Cluster): ScriptReply {
  return [code, live, cluster.emergencyMs === NO_EMERGENCY ? 0 : 1, Math.max(cluster.emergencyMs, 0)];
}

/** True for a repeated message and for one that arrives after a later one. */
export function isOld(ledger: Ledger, seq: number): boolean {
  return ledger.known && seq <= ledger.seq;
}

/** The saved reply for a repeated message, otherwise STALE_MESSAGE. */
export function replyToOld(
  redis: RedisApi,
  keys: string[],
  ledger: Ledger,
  head: number[],
  cluster: Cluster,
): ScriptReply {
  if (head[SEQ] === ledger.seq) {
    const answer = redis.call("HGET", keys[2]!, "answer");
    if (answer !== false) return unpackReply(answer);
  }
  return replyHead(STALE_MESSAGE, liveNodes(redis, keys[1]!, cluster, head), cluster);
}

/** Marks the node as alive, unless its epoch is closed. Returns the code for the head. */
export function markSeen(redis: RedisApi, nodesKey: string, node: string, ledger: Ledger, cluster: Cluster): string {
  if (ledger.closed) return EPOCH_CLOSED;
  redis.call("ZADD", nodesKey, cluster.clock, node);
  return OK;
}
