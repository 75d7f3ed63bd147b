/** Sends syncs: to each shard one at a time for the whole proxy, by whichever worker has a reason. */
import { isShort } from "../../../engine/account.js";
import { lastsUntilNextSync } from "../../../engine/decide.js";
import { newEpoch } from "../../../engine/epoch.js";
import { takeDecided, updateLevel, urge } from "../../../engine/node.js";
import { isMessageDue, isPollDue, type PlannedSync, planMessage, startMessage } from "../../../engine/plan.js";
import { applyReplies, failSync, serveReplies } from "../../../engine/reply.js";
import { giveUpAll } from "../../../engine/waiters.js";
import { nowMs, running } from "../host.js";
import { luaMath, pcall } from "../library.js";
import type { ServiceReply } from "../proxy.js";
import { emergencyNotice, messageText, readAnswer, recallApps, type SyncAnswer, versionWarning } from "../sync-text.js";
import { announce, catchUp } from "./changes.js";
import { addUpCounts, batchReceived, batchText } from "./counters.js";
import { nodeLines } from "./node-lines.js";
import { saveAccount, writeNode } from "./records.js";
import { firstNode, type PlaneAccount, type PlaneNode, worker } from "./state.js";
import { deleteDeparted, loadAll, loadRecalled } from "./values.js";

type Planned = PlannedSync<PlaneAccount>;

/** Sends a message after this turn of the event loop, so that all misses in it share one. */
export function wake(account: PlaneAccount): void {
  const { node } = account;
  urge(node, account);
  if (node.soon || node.syncing || lastsUntilNextSync(node, account)) return;
  const now = nowMs();
  if (now < node.retryAt || isShort(account, now)) return;
  syncSoon(node);
}

function syncSoon(node: PlaneNode): void {
  if (node.soon || node.syncing) return;
  node.soon = running.sync.soon(() => {
    node.soon = false;
    runSync(node);
  });
}

/** Starts a sync for accounts with waiters, unless the store has just granted them too little. */
export function wakeWaiting(): void {
  for (const node of worker.nodes) {
    for (const account of node.urgent) if (account.waitingCost > 0) wake(account);
  }
}

/** Continues the requests whose outcome is decided. */
export function wakeDecided(node: PlaneNode): void {
  for (const waiter of takeDecided(node)) running.sync.wake(waiter);
}

/** Decides all waiters of this worker on a shard without the store. */
export function giveUpWaiting(node: PlaneNode): void {
  const now = nowMs();
  for (const account of node.active) giveUpAll(node, account, now);
}

/** Sends what is due to all shards, in parallel: one that does not reply must not delay the others. */
export function runSyncs(): void {
  for (const node of worker.nodes) {
    if (node.shard > 0 && (node.active.length > 0 || isPollDue(node, nowMs()))) running.sync.spawn(runSync, node);
  }
  runSync(firstNode());
}

/** Sends what is due, unless another worker is doing so. An error must not prevent the next sync. */
function runSync(this: void, node: PlaneNode): void {
  if (node.syncing || !running.sync.takeLock(node)) return;
  node.syncing = true;
  const [fine, problem] = pcall(syncOnce, node);
  node.syncing = false;
  running.sync.releaseLock(node);
  if (fine) return;
  running.sync.logError(`tollgate: sync failed: ${problem}`);
  // Grants that were not recorded must not be spent: the next reply contains them again.
  for (const { syncCell } of node.accounts) syncCell.held = 0;
}

function syncOnce(this: void, node: PlaneNode): void {
  node.epochClosed = false;
  // If the reply leaves requests waiting, the next message follows at once.
  let again = true;
  while (again && running.sync.holdsLock(node)) {
    catchUp(node);
    again = sendMessage(node) && (node.epochClosed || isUrgent(node));
  }
}

function isUrgent(node: PlaneNode): boolean {
  const now = nowMs();
  for (const account of node.urgent) {
    if (!isShort(account, now) && !lastsUntilNextSync(node, account)) return true;
  }
  return false;
}

/** One message and its reply. False if nothing was due or no reply arrived. */
function sendMessage(node: PlaneNode): boolean {
  const now = running.sync.freshNowMs();
  if (now < node.retryAt) return false;
  // Counters are added up with the lock of the first shard.
  const counts = node === firstNode();
  if (counts) addUpCounts();
  updateLevel(node, now);
  const planned = planMessage(node, now);
  const deleted = deleteDeparted(node);
  if (deleted.length > 0) announce(node, deleted);
  if (!isMessageDue(node, planned, now) && !isPollDue(node, now)) return false;
  startMessage(node, planned);
  // Saved first: if this worker dies, another one must know the number of the message and the returned tokens.
  for (const { account } of planned) saveAccount(account);
  writeNode(node);
  const batch = counts ? batchText(now, false) : "";
  const message = messageText({ name: worker.name, node }, planned, counts ? nodeLines() + batch : "");
  const reply = running.sync.callService(node, "/v1/sync", message, worker.options.timeoutMs);
  const ended = running.sync.freshNowMs();
  const started = ended - reply.tookMs;
  // Paused for longer than the lock lasts: another worker has continued, and its next reply includes these grants.
  if (!running.sync.holdsLock(node)) return false;
  const answer = reply.status === 200 ? readAnswer(reply.body, planned) : undefined;
  if (answer === undefined) {
    fail(node, reply, started, ended);
    return false;
  }
  batchReceived(batch);
  apply(node, answer, planned, { started, now: ended });
  return true;
}

function apply(
  node: PlaneNode,
  answer: SyncAnswer,
  planned: Planned[],
  { started, now }: { started: number; now: number },
): void {
  const { emergency, epoch } = node;
  node.configVersion = answer.configVersion;
  if (node.configVersion !== worker.options.configVersion) warnOfVersions(node);
  const nextEpoch = newEpoch(epoch, now, luaMath.random());
  const accounts = () => {
    loadAll();
    return node.accounts;
  };
  const changed = applyReplies(node, { accounts, planned, answer, started, now, nextEpoch });
  for (const account of changed) saveAccount(account);
  loadRecalled(answer.recalled);
  for (const other of recallApps(answer.recalled, worker.nodes, worker.byId))
    if (other !== node && other.urgent.length > 0) syncSoon(other);
  serveReplies(node, planned);
  wakeDecided(node);
  if (node.emergency !== emergency) emergencyChanged(node);
  writeNode(node);
  announce(node, changed);
}

/** The other shards are asked at once, because each reply changes only what belongs to its shard. */
function emergencyChanged(node: PlaneNode): void {
  let known = false;
  for (const other of worker.nodes) {
    if (other !== node && other.emergency === node.emergency) known = true;
    if (other.emergency !== node.emergency) {
      other.lastContact = 0;
      syncSoon(other);
    }
  }
  if (!known) running.sync.logWarning(emergencyNotice(node.emergency));
}

const WARNED_SECONDS = 24 * 60 * 60;

/** Once a day for each pair of versions. During a reload, workers of both versions may send messages. */
function warnOfVersions(node: PlaneNode): void {
  const { dict, options } = worker;
  const [isNew] = dict.safe_add(`told:${options.configVersion} ${node.configVersion}`, 1, WARNED_SECONDS);
  if (isNew !== true) return;
  running.sync.logWarning(versionWarning(running.sync.plane, options.configVersion, node.configVersion));
}

function fail(node: PlaneNode, reply: ServiceReply, started: number, now: number): void {
  failSync(node, { timedOut: reply.timedOut, started, now, random: luaMath.random() });
  writeNode(node);
  announce(node, []);
  node.failuresSeen = node.failures;
  // A service that rejects messages rejects all: the reason must be visible, also if others failed before.
  const rejected = reply.status >= 400 && reply.status < 500 ? reply.body : "";
  if (node.failuresInARow === 1 || (rejected !== "" && rejected !== node.rejected)) {
    running.sync.logWarning(`tollgate: no reply from the service: ${reply.status > 0 ? reply.body : reply.problem}`);
  }
  node.rejected = rejected;
  wakeDecided(node);
}
