/** The state of one Envoy worker. Each worker has its own Lua state and is a node with its own leases. */
import type { EnvoyOptions } from "../../config/options/plane-options.js";
import type { AppLimits } from "../../core/limits.js";
import { type Account, newAccount } from "../../engine/account.js";
import { newEpoch } from "../../engine/epoch.js";
import { type NodeState, newNode } from "../../engine/node.js";
import { type AppCounts, newCounts } from "../lua/counts.js";
import { luaMath } from "../lua/library.js";

export interface EnvoyAccount extends Account {
  counts: AppCounts;
}

export interface Worker {
  begun: boolean;
  options: EnvoyOptions;
  /** The node's name. */
  name: string;
  apps: { [id: string]: EnvoyAccount | undefined };
  accounts: EnvoyAccount[];
  node: NodeState<EnvoyAccount>;
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
  configVersion: string;
}

/** Filled by `begin`. One table, so that functions need no parameter for it. */
export const worker = { begun: false } as Worker;

/** All accounts, for the engine. */
export function allAccounts(this: void): readonly EnvoyAccount[] {
  return worker.accounts;
}

/** The first lease of a worker is small: unused tokens cannot be returned before its next request. */
const FIRST_TARGET = 20;

export function newEnvoyAccount(limits: AppLimits, options: EnvoyOptions, now: number): EnvoyAccount {
  const account = newAccount(limits, options.lease, now) as EnvoyAccount;
  account.lease.target = Math.min(FIRST_TARGET, options.lease.reserve);
  account.counts = newCounts();
  return account;
}

/** Every worker is a node: what all of them may admit without the store is divided among them. */
export function newEnvoyNode({ lease, timeoutMs, failOpenTokens, workers }: EnvoyOptions, now: number) {
  const ownTokens = Math.floor(failOpenTokens / Math.max(workers, 1));
  const options = { lease, timeoutMs, failOpenTokens: ownTokens, timers: false };
  return newNode<EnvoyAccount>(options, newEpoch(0, now, luaMath.random()));
}
