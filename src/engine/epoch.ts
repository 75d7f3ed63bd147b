/** Closed epochs: unanswered messages are repeated under the old epoch, then a new one starts. */
import { beginEpoch, type LeaseMessage } from "../core/lease.js";
import type { Account } from "./account.js";
import { type NodeState, urge } from "./node.js";
import type { PlannedSync } from "./plan.js";

/** Epochs per millisecond. Numbers stay below 2^53 until the year 2248. */
const PER_MILLISECOND = 1024;

/**
 * A number for a new epoch, larger than `before`. `unixMs` is the wall clock; `random`, from 0 to below 1, separates nodes
 * of the same name that start in the same millisecond.
 */
export function newEpoch(before: number, unixMs: number, random: number): number {
  return Math.max(Math.floor(unixMs) * PER_MILLISECOND + Math.floor(random * PER_MILLISECOND), before + 1);
}

/** The store has applied the message. */
export function markReported({ sync }: Account, message: LeaseMessage): void {
  sync.unanswered = false;
  sync.sentSpent = message.spent;
  sync.reportedSpent = message.spent;
  sync.reportedReturned = message.returned;
}

export interface ClosedEpoch {
  accounts: readonly Account[];
  planned: readonly PlannedSync[];
  now: number;
  nextEpoch: number;
}

/**
 * The store has closed the epoch and returned its tokens to the buckets, but it still applies counters of the old epoch.
 * If a reply was lost, this node does not know whether the spending in that message was charged. Such messages are
 * repeated under the old epoch before the new one starts.
 */
export function closeEpoch(node: NodeState, { accounts, planned, now, nextEpoch }: ClosedEpoch): void {
  for (const { account, message } of planned) {
    markReported(account, message);
    account.finalReport = undefined;
  }
  node.epochClosed = false;
  for (const account of accounts) {
    if (account.sync.unanswered) {
      node.epochClosed = true;
      urge(node, account);
    }
  }
  if (!node.epochClosed) startEpoch(node, accounts, nextEpoch, now);
}

/** Drops the tokens of the old epoch. What was spent since the last report is charged in the new one. */
function startEpoch(node: NodeState, accounts: readonly Account[], epoch: number, now: number): void {
  for (const { lease, sync, syncCell } of accounts) {
    beginEpoch(lease, syncCell, sync.reportedSpent, now);
    sync.reportedSpent = 0;
    sync.reportedReturned = 0;
    sync.sentSpent = 0;
  }
  node.epoch = epoch;
  node.seq = 0;
}
