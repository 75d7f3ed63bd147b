/** Sends syncs: one at a time for the whole nginx, by whichever worker has a reason. */
import { ALL_APPS } from "../../../core/keys.js";
import { isScarce } from "../../../engine/account.js";
import { lastsUntilNextSync } from "../../../engine/decide.js";
import { newEpoch } from "../../../engine/epoch.js";
import { takeDecided, updateLevel, urge } from "../../../engine/node.js";
import { isMessageDue, type PlannedSync, planMessage, startMessage } from "../../../engine/plan.js";
import { applyReplies, failSync, recallTokens, serveReplies } from "../../../engine/reply.js";
import { giveUpAll } from "../../../engine/waiters.js";
import { luaMath, pcall } from "../../lua/library.js";
import { emergencyNotice, messageText, readAnswer, type SyncAnswer, versionWarning } from "../../lua/sync-text.js";
import { freshNowMs, nowMs } from "../clock.js";
import { holdsLock, releaseLock, takeLock } from "../lock.js";
import { ngx } from "../ngx.js";
import { callService, type ServiceReply } from "../service-client.js";
import { allAccounts, type NginxAccount, worker } from "../state.js";
import { nodeLine } from "../status.js";
import { announce, catchUp } from "./changes.js";
import { addUpCounts, batchReceived, batchText } from "./counters.js";
import { saveAccount, writeNode } from "./records.js";

type Planned = PlannedSync<NginxAccount>;

/** Sends a message after this turn of the event loop, so that all misses in it share one. */
export function wake(account: NginxAccount): void {
  urge(worker.node, account);
  if (worker.soon || worker.syncing || lastsUntilNextSync(worker.node, account)) return;
  const now = nowMs();
  if (now < worker.node.retryAt || isScarce(account, now)) return;
  const [set] = ngx.timer.at(0, onWake);
  worker.soon = set === true;
}

function onWake(_premature: boolean): void {
  worker.soon = false;
  runSync();
}

/** Starts a sync for accounts with waiters, unless their tokens are scarce. */
export function wakeWaiting(): void {
  for (const account of worker.node.urgent) if (account.waitingCost > 0) wake(account);
}

/** Continues the requests whose outcome is decided. */
export function wakeDecided(): void {
  for (const waiter of takeDecided(worker.node)) waiter.signal.post(1);
}

/** Decides all waiters of this worker without the store. */
export function giveUpWaiting(): void {
  const now = nowMs();
  for (const account of worker.node.active) giveUpAll(worker.node, account, now);
}

/** Sends what is due, unless another worker is doing so. An error must not prevent the next sync. */
export function runSync(): void {
  if (worker.syncing || !takeLock()) return;
  worker.syncing = true;
  const [fine, problem] = pcall(syncOnce);
  worker.syncing = false;
  releaseLock();
  if (fine) return;
  ngx.log(ngx.ERR, "tollgate: sync failed: ", problem);
  // Grants that were not recorded must not be spent: the next reply contains them again.
  for (const { syncCell } of worker.accounts) syncCell.held = 0;
}

function syncOnce(): void {
  const { node } = worker;
  node.epochClosed = false;
  // If the reply leaves requests waiting, the next message follows at once.
  let again = true;
  while (again && holdsLock()) {
    catchUp();
    again = sendMessage() && (node.epochClosed || isUrgent());
  }
}

function isUrgent(): boolean {
  const now = nowMs();
  for (const account of worker.node.urgent) {
    if (!isScarce(account, now) && !lastsUntilNextSync(worker.node, account)) return true;
  }
  return false;
}

/** One message and its reply. False if nothing was due or no reply arrived. */
function sendMessage(): boolean {
  const { node, options } = worker;
  const now = freshNowMs();
  if (now < node.retryAt) return false;
  addUpCounts();
  updateLevel(node, now);
  const planned = planMessage(node, now);
  if (!isMessageDue(node, planned, now)) return false;
  startMessage(node, planned);
  // Saved first: if this worker dies, another one must know the number of the message and the returned tokens.
  for (const { account } of planned) saveAccount(account);
  writeNode();
  const batch = batchText(now, false);
  const reply = callService("/v1/sync", messageText(worker, planned, nodeLine() + batch), options.timeoutMs);
  const ended = freshNowMs();
  // Paused for longer than the lock lasts: another worker has continued, and its next reply includes these grants.
  if (!holdsLock()) return false;
  const answer = reply.status === 200 ? readAnswer(reply.body, planned) : undefined;
  if (answer === undefined) {
    fail(reply, now, ended);
    return false;
  }
  batchReceived(batch);
  apply(answer, planned, now, ended);
  return true;
}

function apply(answer: SyncAnswer, planned: Planned[], started: number, now: number): void {
  const { node } = worker;
  const { emergency, epoch } = node;
  node.configVersion = answer.configVersion;
  if (node.configVersion !== worker.options.configVersion) warnOfVersions();
  const nextEpoch = newEpoch(epoch, now, luaMath.random());
  const changed = applyReplies(node, { accounts: allAccounts, planned, answer, started, now, nextEpoch });
  for (const account of changed) saveAccount(account);
  for (const id of answer.recalled) recallApp(id);
  serveReplies(node, planned);
  wakeDecided();
  if (node.emergency !== emergency) ngx.log(ngx.WARN, emergencyNotice(node.emergency));
  writeNode();
  announce(changed);
}

/** Other nodes need tokens of an app, or of all apps. */
function recallApp(id: string): void {
  const { node, byId, accounts } = worker;
  const account = byId[id];
  if (account !== undefined) recallTokens(node, account);
  if (id === ALL_APPS) for (const one of accounts) recallTokens(node, one);
}

const WARNED_SECONDS = 24 * 60 * 60;

/** Once a day for each pair of versions. During a reload, workers of both versions may send messages. */
function warnOfVersions(): void {
  const { dict, options, node } = worker;
  const [isNew] = dict.safe_add(`told:${options.configVersion} ${node.configVersion}`, 1, WARNED_SECONDS);
  if (isNew !== true) return;
  ngx.log(ngx.WARN, versionWarning("nginx", options.configVersion, node.configVersion));
}

function fail(reply: ServiceReply, started: number, now: number): void {
  const { node } = worker;
  failSync(node, { timedOut: reply.timedOut, started, now, random: luaMath.random() });
  writeNode();
  announce([]);
  worker.failuresSeen = node.failures;
  if (node.failuresInARow === 1) {
    ngx.log(ngx.WARN, "tollgate: no reply from the service: ", reply.status > 0 ? reply.body : reply.problem);
  }
  wakeDecided();
}
