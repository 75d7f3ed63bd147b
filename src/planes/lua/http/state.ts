/** The state of one worker of a Lua plane, including its copies of the records that all workers share. */

import type { PlaneOptions } from "../../../config/options/plane-options.js";
import type { AppLimits } from "../../../core/app-limits.js";
import { wholeText } from "../../../core/platform.js";
import { shardOf } from "../../../core/shard.js";
import { type Account, newAccount } from "../../../engine/account.js";
import { type NodeState, newNode } from "../../../engine/node.js";
import { type AppCounts, newCounts } from "../counts.js";
import type { Caller, SharedMemory } from "../proxy.js";
import { type PouringCell, pouringCell, type SharedCell, sharedCell, sharedCounter } from "./shared-cell.js";

/**
 * `lease` and `sync` are copies of the shared record as of `Worker.seen`; the worker that holds the lock changes them and
 * writes them back. Learned sizes and waiters belong to this worker alone.
 */
export interface PlaneAccount extends Account {
  cell: SharedCell;
  syncCell: PouringCell;
  /** The text that the record was last read from or written as. */
  record: string;
  recordKey: string;
  refusedUntilKey: string;
  /** Decisions of this worker that are not added up yet. */
  counts: AppCounts;
  /** The node on the shard of this account. */
  node: PlaneNode;
  /** It belongs to a value of a limit: see `http/values.ts`. */
  isValue: boolean;
  /** Its index in the accounts of the node. */
  place: number;
  /** When this worker last used it. */
  usedAt: number;
  /** This worker took it from the list of values, to release it. */
  releasing: boolean;
}

/** The node on one shard. Shared by all workers, except for the lists; a copy, like the leases. */
export interface PlaneNode extends NodeState<PlaneAccount>, Caller {
  /**
   * Apps of the shard, those of earlier configurations whose tokens are returned, and then the values of limits that this
   * worker has used.
   */
  accounts: PlaneAccount[];
  /** The version of the service's configuration; "-" before the first reply. */
  configVersion: string;
  /** The texts that the records were last read from or written as. */
  text: string;
  degradationText: string;
  /** The number of the last change that the copies include. */
  seen: number;
  /** Failed syncs after which the waiters of this worker have been decided. */
  failuresSeen: number;
  /** The last reply, if it rejected the message; otherwise empty. */
  rejected: string;
}

export interface Worker {
  dict: SharedMemory;
  options: PlaneOptions;
  /** The node's name. */
  name: string;
  /** Configured apps. */
  apps: { [id: string]: PlaneAccount | undefined };
  /** Those of all shards. */
  accounts: PlaneAccount[];
  byId: { [id: string]: PlaneAccount | undefined };
  /** By shard. */
  nodes: PlaneNode[];
}

/** Filled by `init`. One table, so that functions need no parameter for it. */
export const worker = {} as Worker;

/** The node on the first shard, which every node tells that it is alive. */
export function firstNode(): PlaneNode {
  return worker.nodes[0]!;
}

/** The nodes on all shards. */
export function newPlaneNodes({ lease, timeoutMs, failOpenTokens, shards }: PlaneOptions): PlaneNode[] {
  const nodes: PlaneNode[] = [];
  const nodeOptions = { lease, timeoutMs, failOpenTokens };
  for (let shard = 0; shard < shards; shard++) {
    const node = newNode<PlaneAccount>(nodeOptions, 0, nodes) as PlaneNode;
    node.suffix = shard === 0 ? "" : `:${wholeText(shard)}`;
    node.accounts = [];
    node.service = 0;
    node.configVersion = "-";
    node.text = "";
    node.degradationText = "";
    node.seen = -1;
    node.failuresSeen = 0;
    node.rejected = "";
  }
  return nodes;
}

/** What the account of a value has instead of that of an app. */
export interface ValueParts {
  cell: SharedCell;
  counts: AppCounts;
}

/** @param value an app gets entries that are never deleted */
export function newPlaneAccount(limits: AppLimits, now: number, value?: ValueParts): PlaneAccount {
  const { dict, nodes } = worker;
  const { id } = limits;
  const account = newAccount(limits, nodes[shardOf(id, nodes.length)]!, now) as PlaneAccount;
  account.cell = value === undefined ? sharedCell(dict, balanceKey(id)) : value.cell;
  account.syncCell = pouringCell(account.cell);
  account.refunds = value === undefined ? sharedCell(dict, refundsKey(id)) : sharedCounter(dict, refundsKey(id));
  const [used, refilledAt] = allowanceKeys(id);
  account.withoutStore = { used: sharedCounter(dict, used), refilledAt: sharedCounter(dict, refilledAt) };
  // Not used yet: no tokens are fetched in advance.
  account.lease.activeAt = 0;
  account.record = "";
  account.recordKey = `l:${id}`;
  account.refusedUntilKey = `u:${id}`;
  account.counts = value === undefined ? newCounts() : value.counts;
  account.isValue = value !== undefined;
  account.usedAt = now;
  account.releasing = false;
  account.place = account.node.accounts.length;
  account.node.accounts.push(account);
  return account;
}

export function balanceKey(id: string): string {
  return `c:${id}`;
}

export function refundsKey(id: string): string {
  return `r:${id}`;
}

/** What was admitted without the store, and until when that was refilled. */
export function allowanceKeys(id: string): [used: string, refilledAt: string] {
  return [`a:${id}`, `t:${id}`];
}
