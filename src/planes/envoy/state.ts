/** The state of one Envoy worker. Each worker has its own Lua state and is a node with its own leases. */
import type { EnvoyOptions } from "../../config/options/plane-options.js";
import type { Account } from "../../engine/account.js";
import type { NodeState } from "../../engine/node.js";
import type { AppCounts } from "../lua/counts.js";

export interface EnvoyAccount extends Account {
  counts: AppCounts;
  /** The node on the shard of this account. */
  node: EnvoyNode;
}

/** The node on one shard. */
export interface EnvoyNode extends NodeState<EnvoyAccount> {
  shard: number;
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
  apps: { [id: string]: EnvoyAccount | undefined };
  /** By shard. */
  nodes: EnvoyNode[];
  /** Time of the last reply from any shard. */
  lastContact: number;
  configVersion: string;
}

/** Filled by `begin`. One table, so that functions need no parameter for it. */
export const worker = { begun: false } as Worker;
