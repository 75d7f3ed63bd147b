/** A node: its degradation level and back-off, and the accounts that have something to report. */
import { degradationLevel, newDegradation, observeCall } from "../core/degradation.js";
import type { Account, NodeOptions, NodeState, Waiter } from "./account.js";

export type { NodeOptions, NodeState };

/** @param peers the states on shards that exist already; this one is added */
export function newNode<A extends Account>(
  options: NodeOptions,
  epoch: number,
  peers: NodeState<A>[] = [],
): NodeState<A> {
  const node: NodeState<A> = {
    options,
    peers,
    shard: peers.length,
    epoch,
    seq: 0,
    epochClosed: false,
    clock: 0,
    syncs: 0,
    failures: 0,
    failuresInARow: 0,
    retryAt: 0,
    lastContact: 0,
    liveNodes: 1,
    emergency: false,
    degradation: newDegradation(),
    level: 0,
    closed: false,
    syncing: false,
    soon: false,
    active: [],
    urgent: [],
    scanAt: 0,
    departed: [],
    decided: [],
  };
  peers.push(node);
  return node;
}

/** The number of nodes as far as this one knows: a shard counts only those that use it. */
export function knownNodes({ peers }: NodeState): number {
  let most = 1;
  for (const { liveNodes } of peers) most = Math.max(most, liveNodes);
  return most;
}

/** What a node reports about itself, over all shards. */
export interface NodeSummary {
  /** The highest one. */
  level: number;
  emergency: boolean;
  syncs: number;
  failures: number;
  /** Time of the last reply; 0 before the first one. */
  lastContact: number;
  liveNodes: number;
}

export function summaryOf(node: NodeState): NodeSummary {
  const sum = { level: 0, emergency: false, syncs: 0, failures: 0, lastContact: 0, liveNodes: knownNodes(node) };
  for (const { level, emergency, syncs, failures, lastContact } of node.peers) {
    sum.level = Math.max(sum.level, level);
    sum.emergency = sum.emergency || emergency;
    sum.syncs = sum.syncs + syncs;
    sum.failures = sum.failures + failures;
    sum.lastContact = Math.max(sum.lastContact, lastContact);
  }
  return sum;
}

export function activate(node: NodeState, account: Account): void {
  if (account.active) return;
  account.active = true;
  node.active.push(account);
}

/** As `activate`; the next message does not wait for the sync interval. */
export function urge(node: NodeState, account: Account): void {
  activate(node, account);
  if (account.urgent) return;
  account.urgent = true;
  node.urgent.push(account);
}

/** Takes the waiters that the host has to wake. */
export function takeDecided<W extends Waiter>(node: { decided: W[] }): W[] {
  const decided = node.decided;
  if (decided.length > 0) node.decided = [];
  return decided;
}

export function updateLevel(node: NodeState, now: number): number {
  node.level = degradationLevel(node.degradation, now);
  return node.level;
}

const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 1000;

/** A call to the store that started at `started` has ended: STORE_OK, STORE_ERROR or STORE_TIMEOUT. */
export function callEnded(node: NodeState, outcome: number, started: number, now: number): void {
  observeCall(node.degradation, now, outcome, now - started);
  updateLevel(node, now);
}

/** A sync has failed: the next one starts after a back-off, which `random` (0 to below 1) spreads over the nodes. */
export function backOff(node: NodeState, random: number, now: number): void {
  let pause = FIRST_RETRY_MS;
  for (let i = 0; i < node.failuresInARow && pause < LONGEST_RETRY_MS; i++) pause = pause * 2;
  node.failures = node.failures + 1;
  node.failuresInARow = node.failuresInARow + 1;
  node.retryAt = now + Math.min(pause, LONGEST_RETRY_MS) * (0.5 + random / 2);
}
