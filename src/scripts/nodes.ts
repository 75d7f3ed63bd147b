/** What the store knows about nodes. These scripts change nothing. */
import { OK } from "../core/codes.js";
import { storedNumber } from "../core/platform.js";
import { CLUSTER, checkCluster, isAlive, readCluster } from "./common/cluster.js";
import { ALWAYS_OK, flag, invalid, operation, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/** Live nodes, and dead ones that are not reconciled yet, each with its epoch. */
export const NODES = operation({
  keys: ["cluster", "nodes"],
  arguments: [CLUSTER],
  reply: [ALWAYS_OK],
  itemReply: [text("node"), "silentMs", flag("alive")],
});

/** Tokens of all apps that all nodes hold, and that each of these nodes holds; 0 for an unknown one. */
export const HOLDINGS = operation({
  keys: ["cluster"],
  moreKeys: "ledger",
  arguments: [],
  reply: ["held"],
  itemReply: ["held"],
});

/** The hash of a node in one epoch, in no particular order; empty if it is unknown. See `common/ledger.ts`. */
export const NODE_LEDGER = operation({
  keys: ["ledger"],
  arguments: [],
  reply: [],
  itemReply: [text("field"), text("value")],
});

export function nodes(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key, values } = checkCluster(readCall(NODES, keys, argv));
  if (fault !== "") return invalid(fault);
  const cluster = readCluster(redis, key.cluster, values);
  const reply: ScriptReply = [OK];
  const members = redis.call("ZRANGE", key.nodes, 0, -1, "WITHSCORES");
  for (let i = 0; i < members.length; i = i + 2) {
    const silent = cluster.clock - storedNumber(members[i + 1]!, 0);
    reply.push(members[i]!);
    reply.push(Math.max(Math.floor(silent / 1000), 0));
    reply.push(isAlive(silent, cluster) ? 1 : 0);
  }
  return reply;
}

export function holdings(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault } = readCall(HOLDINGS, keys, argv);
  if (fault !== "") return invalid(fault);
  const reply: ScriptReply = [];
  for (const key of keys) reply.push(storedNumber(redis.call("HGET", key, "held"), 0));
  return reply;
}

export function nodeLedger(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  const { fault, key } = readCall(NODE_LEDGER, keys, argv);
  return fault !== "" ? invalid(fault) : redis.call("HGETALL", key.ledger);
}
