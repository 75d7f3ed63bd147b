/** A node's message: reading and validating its arguments, and the head of every reply to a node. */
import { EPOCH_CLOSED, OK, STALE_MESSAGE } from "../../core/codes.js";
import { wholeNumber, wholeNumbers } from "../../core/platform.js";
import { fields, flag, type Listed, text } from "../operation.js";
import type { RedisApi, ScriptReply } from "../redis-api.js";
import { type AppNumbers, appFault, type Counters } from "./app.js";
import {
  CLUSTER,
  type Cluster,
  type ClusterNumbers,
  clusterFault,
  isWithin,
  liveNodes,
  MAX_COUNTER,
  NO_EMERGENCY,
} from "./cluster.js";
import { grantedField, type Ledger, MAX_APPS, type NodeState } from "./ledger.js";
import { unpackReply } from "./saved-reply.js";

/** The keys and arguments with which every message begins; its apps follow. */
export const MESSAGE_KEYS = fields("cluster", "nodes", "ledger");
export const SENDER = fields("seq", text("node"));
/** The head of every reply to a node. If it was not known, the store has lost its ledger, and the node reports all that it holds. */
export const NODE_REPLY = fields(text("code"), "liveNodes", flag("emergency"), "emergencyLeftMs", flag("known"));

/** The longest name of a node in its epoch: two ids, a separator and room to spare. */
const MAX_NODE_LENGTH = 300;

/** The largest counter of a node, so that sums of several stay below 2^53. */
const MAX_CLAIM = 2251799813685248;

/** The numbers about an app in every message. */
export type AppReport = AppNumbers & Counters;

/** Where the arguments about apps begin, the names of their numbers, and which of these only this script has. */
export interface MessageLayout<N extends string> {
  itemsAt: number;
  names: readonly (N | keyof AppReport)[];
  own: readonly N[];
}

export interface Message<N extends string> {
  /** The invalid argument, or an empty text. The other fields are complete only if it is empty. */
  fault: string;
  key: Record<(typeof MESSAGE_KEYS)[number], string>;
  cluster: ClusterNumbers;
  seq: number;
  /** The node in its epoch. */
  node: string;
  apps: string[];
  /** The numbers of each app. */
  requests: Record<N | keyof AppReport, number>[];
}

/** Reads a message, faster than `readCall`. */
export function readMessage<N extends string>(keys: string[], argv: string[], layout: MessageLayout<N>): Message<N> {
  const { itemsAt, names, own } = layout;
  const message: Message<N> = {
    fault: "",
    key: { cluster: "", nodes: "", ledger: "" },
    cluster: { clusterCapacity: 0, clusterRate: 0, nodeTtlMs: 0, shards: 0 },
    seq: 0,
    node: "",
    apps: [],
    requests: [],
  };
  if (argv.length < itemsAt) message.fault = "arguments";
  else if (keys.length < MESSAGE_KEYS.length) message.fault = "keys";
  if (message.fault !== "") return message;
  message.key = { cluster: keys[0]!, nodes: keys[1]!, ledger: keys[2]! };
  message.cluster = wholeNumbers(argv, 0, CLUSTER);
  message.seq = wholeNumber(argv[CLUSTER.length]!);
  message.node = argv[CLUSTER.length + 1]!;
  const width = names.length + 1;
  message.fault = headFault(message, keys.length - MESSAGE_KEYS.length, (argv.length - itemsAt) / width);
  for (let start = itemsAt; message.fault === "" && start < argv.length; start = start + width) {
    const app = argv[start]!;
    const request = wholeNumbers(argv, start + 1, names);
    message.fault = requestFault(app, request, own);
    message.apps.push(app);
    message.requests.push(request);
  }
  if (message.fault === "" && hasDuplicates(message.apps)) message.fault = "app given twice";
  return message;
}

function headFault<N extends string>({ cluster, seq, node }: Message<N>, apps: number, items: number): string {
  const fault = clusterFault(cluster);
  if (fault !== "") return fault;
  if (apps > MAX_APPS) return "apps";
  if (items !== apps) return "arguments";
  if (!isWithin(seq, 1, MAX_COUNTER)) return "seq";
  return node === "" || node.length > MAX_NODE_LENGTH ? "node" : "";
}

function requestFault<N extends string>(
  app: string,
  request: AppReport & Record<N, number>,
  own: readonly N[],
): string {
  const fault = appFault(app, request);
  if (fault !== "") return fault;
  const { granted, spent, returned } = request;
  if (granted < 0 || granted > MAX_CLAIM) return "granted";
  if (spent < 0 || spent > MAX_CLAIM) return "spent";
  if (returned < 0 || returned > granted) return "returned";
  const count = own.length;
  for (let i = 0; i < count; i++) {
    const amount: number = request[own[i]!];
    if (amount < 0 || amount > MAX_COUNTER) return own[i]!;
  }
  return "";
}

function hasDuplicates(apps: string[]): boolean {
  // The field name, not the id, is the key: an id could be a property that every JavaScript object has.
  const seen: Record<string, boolean> = {};
  for (const app of apps) {
    const field = grantedField(app);
    if (seen[field] === true) return true;
    seen[field] = true;
  }
  return false;
}

export function replyHead(code: string, live: number, { cluster, ledger }: KnownNode): Listed<typeof NODE_REPLY> {
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
export function replyToOld<N extends string>(
  redis: RedisApi,
  { key, seq }: Message<N>,
  { ledger, cluster }: NodeState,
): ScriptReply {
  if (seq === ledger.seq) {
    const answer = redis.call("HGET", key.ledger, "answer");
    if (answer !== false) return unpackReply(answer);
  }
  return replyHead(STALE_MESSAGE, liveNodes(redis, key.nodes, cluster), { cluster, ledger });
}

/** Marks the node as alive, unless its epoch is closed. Returns the code for the head. */
export function markSeen(redis: RedisApi, nodesKey: string, node: string, { ledger, cluster }: NodeState): string {
  if (ledger.closed) return EPOCH_CLOSED;
  redis.call("ZADD", nodesKey, cluster.clock, node);
  return OK;
}
