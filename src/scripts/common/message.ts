/** A node's message: reading and validating its arguments, and the head of every reply to a node. */
import { EPOCH_CLOSED, INVALID_ARGUMENT, OK, STALE_MESSAGE } from "../../core/codes.js";
import { wholeNumbers } from "../../core/platform.js";
import type { RedisApi, ScriptReply } from "../redis-api.js";
import { appFault, GRANTED, MESSAGE_NUMBERS, RETURNED, SPENT } from "./app.js";
import {
  CLUSTER_ARGUMENTS,
  type Cluster,
  clusterFault,
  isWithin,
  liveNodes,
  MAX_COUNTER,
  NO_EMERGENCY,
} from "./cluster.js";
import { grantedField, type Ledger, MAX_APPS, type NodeState } from "./ledger.js";
import { unpackReply } from "./saved-reply.js";

/** Positions after the cluster's numbers. */
const SEQ = CLUSTER_ARGUMENTS;
const NODE_ARGUMENT = CLUSTER_ARGUMENTS + 1;
/** Keys before those of the apps: cluster, nodes, ledger. */
export const NODE_KEYS = 3;
/** The longest name of a node in its epoch: two ids, a separator and room to spare. */
const MAX_NODE_LENGTH = 300;

/** The largest counter of a node, so that sums of several stay below 2^53. */
const MAX_CLAIM = 2251799813685248;

export function invalid(field: string): ScriptReply {
  return [INVALID_ARGUMENT, field];
}

export interface Message {
  /** The invalid argument, or an empty text. The other fields are complete only if it is empty. */
  fault: string;
  /** The cluster's numbers and the seq. */
  head: number[];
  seq: number;
  /** The node in its epoch. */
  node: string;
  apps: string[];
  /** The numbers of each app. */
  requests: number[][];
}

/** Reads a message whose apps start at position `from` and have `width` arguments each: the id and its numbers. */
export function readMessage(keys: string[], argv: string[], from: number, width: number): Message {
  const message: Message = { fault: "arguments", head: [], seq: 0, node: "", apps: [], requests: [] };
  if (argv.length <= NODE_ARGUMENT) return message;
  message.head = wholeNumbers(argv, 0, NODE_ARGUMENT);
  message.seq = message.head[SEQ]!;
  message.node = argv[NODE_ARGUMENT]!;
  message.fault = headFault(message, keys.length - NODE_KEYS, argv.length - from, width);
  for (let start = from; message.fault === "" && start < argv.length; start = start + width) {
    const request = wholeNumbers(argv, start + 1, width - 1);
    message.fault = requestFault(argv[start]!, request);
    message.apps.push(argv[start]!);
    message.requests.push(request);
  }
  if (message.fault === "" && hasDuplicates(message.apps)) message.fault = "app given twice";
  return message;
}

function headFault({ head, seq, node }: Message, apps: number, rest: number, width: number): string {
  const fault = clusterFault(head);
  if (fault !== "") return fault;
  if (apps < 0) return "keys";
  if (apps > MAX_APPS) return "apps";
  if (rest !== apps * width) return "arguments";
  if (!isWithin(seq, 1, MAX_COUNTER)) return "seq";
  return node === "" || node.length > MAX_NODE_LENGTH ? "node" : "";
}

function requestFault(app: string, request: number[]): string {
  const fault = appFault(app, request);
  if (fault !== "") return fault;
  const granted = request[GRANTED]!;
  if (granted < 0 || granted > MAX_CLAIM) return "granted";
  if (request[SPENT]! < 0 || request[SPENT]! > MAX_CLAIM) return "spent";
  if (request[RETURNED]! < 0 || request[RETURNED]! > granted) return "returned";
  for (let i = MESSAGE_NUMBERS; i < request.length; i++) {
    if (request[i]! < 0 || request[i]! > MAX_COUNTER) return amountName(i - MESSAGE_NUMBERS);
  }
  return "";
}

/** The amounts after the counters, as `grant` has them. */
function amountName(place: number): string {
  if (place === 0) return "need";
  return place === 1 ? "want" : "borrow";
}

function hasDuplicates(apps: string[]): boolean {
  // The field name, not the id, is the key: an id could be a property that every JavaScript object has.
  const seen: Record<string, boolean> = {};
  for (const app of apps) {
    if (seen[grantedField(app)] === true) return true;
    seen[grantedField(app)] = true;
  }
  return false;
}

/** Number of values in the head of a reply. */
export const HEAD = 5;

/**
 * The head of every reply: code, live nodes, emergency (0 or 1), its remaining milliseconds, and whether the node was known
 * before (0 or 1). If it was not, the store has lost its ledger, and the node reports all that it holds.
 */
export function replyHead(code: string, live: number, { cluster, ledger }: KnownNode): ScriptReply {
  const { emergencyMs } = cluster;
  return [code, live, emergencyMs === NO_EMERGENCY ? 0 : 1, Math.max(emergencyMs, 0), ledger.known ? 1 : 0];
}

interface KnownNode {
  cluster: Cluster;
  ledger: { known: boolean };
}

/** True for a repeated message and for one that arrives after a later one. */
export function isOld(ledger: Ledger, seq: number): boolean {
  return ledger.known && seq <= ledger.seq;
}

/** The saved reply for a repeated message, otherwise STALE_MESSAGE. */
export function replyToOld(
  redis: RedisApi,
  keys: string[],
  message: Message,
  { ledger, cluster }: NodeState,
): ScriptReply {
  if (message.seq === ledger.seq) {
    const answer = redis.call("HGET", keys[2]!, "answer");
    if (answer !== false) return unpackReply(answer);
  }
  return replyHead(STALE_MESSAGE, liveNodes(redis, keys[1]!, cluster), { cluster, ledger });
}

/** Marks the node as alive, unless its epoch is closed. Returns the code for the head. */
export function markSeen(redis: RedisApi, nodesKey: string, node: string, { ledger, cluster }: NodeState): string {
  if (ledger.closed) return EPOCH_CLOSED;
  redis.call("ZADD", nodesKey, cluster.clock, node);
  return OK;
}
