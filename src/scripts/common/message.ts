/** A node's message as scripts receive it: reading and checking its arguments, and the head of every answer to a node. */
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
import { unpackReply } from "./remembered.js";
import { GRANTED, MESSAGE_NUMBERS, RETURNED, SPENT } from "./request.js";

/** After the cluster's numbers: the message's own, and then the node in its epoch. */
export const SEQ = CLUSTER_ARGUMENTS;
export const NODE_ARGUMENT = 4;
/** Keys before those of the apps: cluster, nodes, ledger. */
export const NODE_KEYS = 3;
/** The longest name of a node in its epoch: two ids, a separator and room to spare. */
const MAX_NODE_LENGTH = 300;

export function invalid(field: string): ScriptReply {
  return [INVALID_ARGUMENT, field];
}

/** The numbers that a message begins with; none where there are too few arguments. */
export function headNumbers(argv: string[]): number[] {
  return argv.length > NODE_ARGUMENT ? wholeNumbers(argv, 0, NODE_ARGUMENT) : [];
}

/** What is wrong with the head of a message; empty when nothing is. Each app must take up `width` arguments. */
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
 * Reads the numbers of each app into `requests`, its id into `apps`, and says what is wrong; empty when nothing is.
 * Each app has its id and `width` − 1 numbers.
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
    // Named by field and not by id: no id can then be mistaken for a property that every JavaScript object has.
    const seen: Record<string, boolean> = {};
    for (const app of apps) {
      if (seen[grantedField(app)] === true) return "app given twice";
      seen[grantedField(app)] = true;
    }
  }
  return "";
}

/** What every node learns from every answer: code, live nodes, emergency (0 or 1), milliseconds of it left. */
export function answerHead(code: string, live: number, cluster: Cluster): ScriptReply {
  return [code, live, cluster.emergencyMs === NO_EMERGENCY ? 0 : 1, Math.max(cluster.emergencyMs, 0)];
}

/** True for a message that was booked before, or that a later one has overtaken. */
export function isOld(ledger: Ledger, seq: number): boolean {
  return ledger.known && seq <= ledger.seq;
}

/** The answer to an old message: the remembered one for a repetition, else STALE_MESSAGE. */
export function answerToOld(
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
  return answerHead(STALE_MESSAGE, liveNodes(redis, keys[1]!, cluster, head), cluster);
}

/** Counts the node among the living, unless its epoch is closed. Answers the code for the head. */
export function markSeen(redis: RedisApi, nodesKey: string, node: string, ledger: Ledger, cluster: Cluster): string {
  if (ledger.closed) return EPOCH_CLOSED;
  redis.call("ZADD", nodesKey, cluster.clock, node);
  return OK;
}
