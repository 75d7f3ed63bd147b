/** The state of one Envoy worker. Each worker has its own Lua state and is a node with its own leases. */
import type { EnvoyOptions } from "../../config/options/plane-options.js";
import type { AppLimits } from "../../core/limits.js";
import { shardOf } from "../../core/shard.js";
import { type Account, newAccount } from "../../engine/account.js";
import type { NodeState } from "../../engine/node.js";
import type { AppCounts } from "../lua/counts.js";

export interface EnvoyAccount extends Account {
  counts: AppCounts;
  /** The node on the shard of this account. */
  node: EnvoyNode;
  /** It belongs to a value of a limit: see `http/values.ts`. */
  isValue: boolean;
  /** Its index in the accounts of the node. */
  place: number;
  usedAt: number;
}

/** The node on one shard. */
export interface EnvoyNode extends NodeState<EnvoyAccount> {
  shard: number;
  /** Apps of the shard, and then values of limits. */
  accounts: EnvoyAccount[];
  /** The number of the message in flight; a reply to another one came too late. */
  syncing: number;
  /** A message is in flight until its reply arrives, or until this time: the request that sent it may have been aborted. */
  syncingUntil: number;
  /** The account of the request that waits for the message in flight. */
  waiting: EnvoyAccount | undefined;
  /** Requests admitted since the last contact. */
  sinceContact: number;
  /** Next time to check whether a report is due. */
  lookAt: number;
}

export interface Worker {
  begun: boolean;
  options: EnvoyOptions;
  /** The node's name. */
  name: string;
  /** Configured apps. */
  apps: { [id: string]: EnvoyAccount | undefined };
  /** Apps and values of limits. */
  byId: { [id: string]: EnvoyAccount | undefined };
  /** By shard. */
  nodes: EnvoyNode[];
  /** Time of the last reply from any shard. */
  lastContact: number;
  configVersion: string;
}

export function addAccount(limits: AppLimits, now: number, isValue: boolean): EnvoyAccount {
  const { options, nodes, byId } = worker;
  const account = newAccount(limits, options.lease, now) as EnvoyAccount;
  // Tokens that are not needed could not be returned without a request.
  account.lease.target = 0;
  account.node = nodes[shardOf(limits.id, nodes.length)]!;
  account.isValue = isValue;
  account.usedAt = now;
  account.place = account.node.accounts.length;
  account.node.accounts.push(account);
  byId[limits.id] = account;
  return account;
}

/** Filled by `begin`. One table, so that functions need no parameter for it. */
export const worker = { begun: false } as Worker;
