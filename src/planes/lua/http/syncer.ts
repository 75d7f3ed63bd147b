/** Sends syncs: to each shard one at a time for the whole proxy, by whichever worker has a reason. */
import { ALL_APPS } from "../../../core/keys.js";
import { wholeText } from "../../../core/platform.js";
import { summaryOf } from "../../../engine/node.js";
import { isPollDue, type PlannedSync, startMessage } from "../../../engine/plan.js";
import {
  type CallTimes,
  endSync,
  isEmergencyNews,
  isSyncUrgent,
  planDue,
  syncFailed,
  syncSoon,
  wantSync,
} from "../../../engine/sync-loop.js";
import { nodeText } from "../counts.js";
import { nowMs, running } from "../host.js";
import { luaMath, luaString, pcall } from "../library.js";
import type { ServiceReply } from "../proxy.js";
import { emergencyNotice, messageText, readAnswer, recallApps, type SyncAnswer, versionWarning } from "../sync-text.js";
import { announce, catchUp } from "./changes.js";
import { addUpCounts, batchReceived, batchText } from "./counters.js";
import { saveAccount, writeNode } from "./records.js";
import { firstNode, type PlaneAccount, type PlaneNode, worker } from "./state.js";
import { deleteDeparted, loadAll, loadRecalled } from "./values.js";

type Planned = PlannedSync<PlaneAccount>;

/** The part of the host that all proxies which send messages have in common. */
export const syncFunctions = {
  wantTokens: wake,
  unixMs: nowMs,
  random,
  // Waiting requests look again and again.
  syncAfterGap: nothing,
  sync: runSync,
  pollsForRecalls: true,
  accountsOf,
  save,
  forgetDeparted,
  emergencyChanged,
};

export function wake(this: void, account: PlaneAccount): void {
  wantSync(running.sync, account);
}

/** Starts a sync for accounts with waiters, unless the store has just granted them too little. */
export function wakeWaiting(): void {
  for (const node of worker.nodes) {
    for (const account of node.urgent) if (account.waitingCost > 0) wake(account);
  }
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
    again = sendMessage(node) && isSyncUrgent(node, nowMs());
  }
}

/** One message and its reply. False if nothing was due or no reply arrived. */
function sendMessage(node: PlaneNode): boolean {
  const host = running.sync;
  // Counters are added up with the lock of the first shard.
  const counts = node === firstNode();
  if (counts) addUpCounts();
  const now = host.freshNowMs();
  const planned = planDue(host, node, now);
  if (planned === undefined) return false;
  startMessage(node, planned);
  // Saved first: if this worker dies, another one must know the number of the message and the returned tokens.
  for (const { account } of planned) saveAccount(account);
  writeNode(node);
  const batch = counts ? batchText(now, false) : "";
  const message = messageText({ name: worker.name, node }, planned, counts ? nodeLines() + batch : "");
  const reply = host.callService(node, "/v1/sync", message, worker.options.timeoutMs);
  const ended = host.freshNowMs();
  const times = { started: ended - reply.tookMs, now: ended };
  // Paused for longer than the lock lasts: another worker has continued, and its next reply includes these grants.
  if (!host.holdsLock(node)) return false;
  const answer = reply.status === 200 ? readAnswer(reply.body, planned) : undefined;
  if (answer === undefined) {
    fail(node, reply, times);
    return false;
  }
  batchReceived(batch);
  apply(node, answer, planned, times);
  return true;
}

/** A version counts as new again after this time: services with different configurations may reply in turn. */
const VERSION_SECONDS = 1;

/** With a new configuration of the service, also all tokens: each account learns its limits with its next message. */
function recalledBy(node: PlaneNode, { configVersion, recalled }: SyncAnswer): string[] {
  if (configVersion === node.configVersion || node.configVersion === "-") return recalled;
  const [isNew] = worker.dict.safe_add(`version${node.suffix} ${configVersion}`, 1, VERSION_SECONDS);
  if (isNew === true) recalled.push(`${ALL_APPS}${wholeText(node.shard)}`);
  return recalled;
}

function apply(node: PlaneNode, answer: SyncAnswer, planned: Planned[], times: CallTimes): void {
  const recalled = recalledBy(node, answer);
  node.configVersion = answer.configVersion;
  if (node.configVersion !== worker.options.configVersion) warnOfVersions(node);
  const changed = endSync(running.sync, node, planned, answer, times);
  loadRecalled(recalled);
  for (const other of recallApps(recalled, worker.nodes, worker.byId))
    if (other !== node && other.urgent.length > 0) syncSoon(running.sync, other);
  writeNode(node);
  announce(node, changed);
}

/** The lines about this node in messages. */
function nodeLines(): string {
  const { fields, lines } = running.sync.nodeDetails();
  const memory = luaString.format(" memory_free_bytes=%.0f", worker.dict.free_space());
  const { configVersion: serviceVersion } = firstNode();
  const state = { clock: nowMs(), serviceVersion, ownVersion: worker.options.configVersion };
  return `${nodeText(summaryOf(firstNode()), state)}${memory}${fields}\n${lines}`;
}

function random(this: void): number {
  return luaMath.random();
}

function nothing(this: void): void {}

function accountsOf(this: void, node: PlaneNode): PlaneAccount[] {
  loadAll();
  return node.accounts;
}

function save(this: void, accounts: readonly PlaneAccount[]): void {
  for (const account of accounts) saveAccount(account);
}

function forgetDeparted(this: void, node: PlaneNode): void {
  const deleted = deleteDeparted(node);
  if (deleted.length > 0) announce(node, deleted);
}

/** The other shards are asked at once, because each reply changes only what belongs to its shard. */
function emergencyChanged(this: void, node: PlaneNode): void {
  for (const other of worker.nodes) {
    if (other.emergency !== node.emergency) {
      other.lastContact = 0;
      syncSoon(running.sync, other);
    }
  }
  if (isEmergencyNews(node)) running.sync.logWarning(emergencyNotice(node.emergency));
}

const WARNED_SECONDS = 24 * 60 * 60;

/** Once a day for each pair of versions. During a reload, workers of both versions may send messages. */
function warnOfVersions(node: PlaneNode): void {
  const { dict, options } = worker;
  const [isNew] = dict.safe_add(`told:${options.configVersion} ${node.configVersion}`, 1, WARNED_SECONDS);
  if (isNew !== true) return;
  running.sync.logWarning(versionWarning(running.sync.plane, options.configVersion, node.configVersion));
}

function fail(node: PlaneNode, reply: ServiceReply, times: CallTimes): void {
  syncFailed(running.sync, node, reply.timedOut, times);
  writeNode(node);
  announce(node, []);
  node.failuresSeen = node.failures;
  // A service that rejects messages rejects all: the reason must be visible, also if others failed before.
  const rejected = reply.status >= 400 && reply.status < 500 ? reply.body : "";
  if (node.failuresInARow === 1 || (rejected !== "" && rejected !== node.rejected)) {
    running.sync.logWarning(`tollgate: no reply from the service: ${reply.status > 0 ? reply.body : reply.problem}`);
  }
  node.rejected = rejected;
}
