/** When a node sends messages to a shard, one at a time, and what follows from a reply or a failure. */
import { type Account, isShort, type NodeState } from "./account.js";
import { lastsUntilNextSync } from "./decide.js";
import { newEpoch } from "./epoch.js";
import type { SyncHost } from "./host.js";
import { takeDecided, updateLevel, urge } from "./node.js";
import { isMessageDue, isPollDue, type PlannedSync, planMessage } from "./plan.js";
import { applyReplies, failSync, type NodeReply, serveReplies } from "./reply.js";
import { giveUpAll, giveUpExpired } from "./waiters.js";

/** A message and its reply, or its failure. Host milliseconds. */
export interface CallTimes {
  started: number;
  now: number;
}

/** The account needs a message: it is sent after this turn of the event loop, unless another one is under way. */
export function wantSync<A extends Account>(host: SyncHost<A>, account: A & { node: NodeState<A> }): void {
  const { node } = account;
  urge(node, account);
  if (node.soon || node.syncing || node.closed || lastsUntilNextSync(node, account)) return;
  const now = host.nowMs();
  if (now < node.retryAt) return;
  if (!isShort(account, now)) syncSoon(host, node);
  else if (account.waiters.length > 0) host.syncAfterGap(node);
}

export function syncSoon<A extends Account>(host: SyncHost<A>, node: NodeState<A>): void {
  if (node.soon || node.syncing) return;
  node.soon = host.soon(() => {
    node.soon = false;
    host.sync(node);
  });
}

/** What is due to be sent; undefined if nothing is, or if a failed call is not repeated yet. */
export function planDue<A extends Account>(
  host: SyncHost<A>,
  node: NodeState<A>,
  now: number,
): PlannedSync<A>[] | undefined {
  if (node.closed || now < node.retryAt) return undefined;
  updateLevel(node, now);
  const planned = planMessage(node, now);
  if (node.departed.length > 0) host.forgetDeparted(node);
  const isPolling = host.pollsForRecalls && isPollDue(node, now);
  return isPolling || isMessageDue(node, planned, now) ? planned : undefined;
}

/** A reply has arrived, whose parts are set in `planned`. Returns the accounts that have changed. */
export function endSync<A extends Account>(
  host: SyncHost<A>,
  node: NodeState<A>,
  planned: PlannedSync<A>[],
  answer: NodeReply,
  { started, now }: CallTimes,
): readonly A[] {
  const { emergency, epoch } = node;
  const nextEpoch = newEpoch(epoch, host.unixMs(), host.random());
  const accounts = () => host.accountsOf(node);
  const changed = applyReplies(node, { accounts, planned, answer, started, now, nextEpoch });
  host.save(changed);
  serveReplies(node, planned);
  if (node.emergency !== emergency) host.emergencyChanged(node);
  wakeDecided(host, node);
  return changed;
}

/** No reply has arrived. */
export function syncFailed<A extends Account>(
  host: SyncHost<A>,
  node: NodeState<A>,
  timedOut: boolean,
  { started, now }: CallTimes,
): void {
  failSync(node, { timedOut, started, now, random: host.random() });
  wakeDecided(host, node);
}

/** After a reply: whether the next message follows at once, because it leaves requests waiting or a closed epoch open. */
export function isSyncUrgent(node: NodeState, now: number): boolean {
  if (now < node.retryAt) return false;
  if (node.epochClosed) return true;
  for (const account of node.urgent) {
    if (!isShort(account, now) && !lastsUntilNextSync(node, account)) return true;
  }
  return false;
}

/** Shards begin and end an emergency one after the other; it is one event. */
export function isEmergencyNews({ peers, shard }: NodeState): boolean {
  for (const other of peers) if (other.shard !== shard && other.emergency) return false;
  return true;
}

/** Decides all waiters of a node without the store. */
export function giveUpWaiting<A extends Account>(host: SyncHost<A>, node: NodeState<A>): void {
  const now = host.nowMs();
  for (const account of node.active) giveUpAll(node, account, now);
  wakeDecided(host, node);
}

/** Decides the waiters of a node whose deadline has passed. */
export function giveUpLate<A extends Account>(host: SyncHost<A>, node: NodeState<A>): void {
  const now = host.nowMs();
  for (const account of node.active) giveUpExpired(node, account, now);
  wakeDecided(host, node);
}

/** Continues the requests whose outcome is decided. */
export function wakeDecided<A extends Account>(host: SyncHost<A>, node: NodeState<A>): void {
  for (const waiter of takeDecided(node)) host.wake(waiter);
}
