/** Sends syncs of this worker: one at a time, by the request that has a reason. Without requests nothing is sent. */
import { reportFactor } from "../../../core/degradation.js";
import { ALL_APPS } from "../../../core/keys.js";
import type { Waiter } from "../../../engine/account.js";
import { newEpoch } from "../../../engine/epoch.js";
import { takeDecided, updateLevel, urge } from "../../../engine/node.js";
import { HEARTBEAT_MS, type PlannedSync, planMessage, startMessage } from "../../../engine/plan.js";
import { applyReplies, failSync, recallTokens, serveReplies } from "../../../engine/reply.js";
import { addWaiter, takeWaiters } from "../../../engine/waiters.js";
import { luaMath } from "../../lua/library.js";
import { emergencyNotice, messageText, readAnswer, type SyncAnswer, versionWarning } from "../../lua/sync-text.js";
import { nowMs } from "../clock.js";
import { batchReceived, countersText } from "../counters.js";
import type { Handle } from "../envoy-api.js";
import { callService } from "../service-calls.js";
import { allAccounts, type EnvoyAccount, worker } from "../state.js";

/** After the deadline of a call plus this time, the request that made it has been aborted. */
const SPARE_MS = 100;
/** A report alone is sent, and delays a request, only after this many requests. */
const REPORT_REQUESTS = 50;

/** Whether a sync may start now. */
export function maySync(now: number): boolean {
  return !isSyncing(now) && now >= worker.node.retryAt;
}

/** Whether a message is in flight. A clock that was set back ends it, too. */
export function isSyncing(now: number): boolean {
  return now < worker.syncingUntil && now + worker.options.timeoutMs + SPARE_MS >= worker.syncingUntil;
}

/** Whether a report is due, independent of the current request. */
export function isReportDue(now: number): boolean {
  const elapsed = now - worker.node.lastContact;
  if (now < worker.lookAt && elapsed >= 0) return false;
  return elapsed >= HEARTBEAT_MS || elapsed < 0 || worker.sinceContact >= REPORT_REQUESTS;
}

/**
 * Sends a message and applies the reply; false if none arrived. A `waiter` is decided by the reply or the failure, unless
 * the reply leaves it open: then it waits no longer.
 */
export function sendSync(handle: Handle, account: EnvoyAccount, waiter: Waiter | undefined, now: number): boolean {
  const { node } = worker;
  // A waiter that is still there belongs to an aborted request.
  if (worker.waiting !== undefined) takeWaiters(worker.waiting);
  worker.waiting = account;
  if (waiter !== undefined) addWaiter(account, waiter);
  urge(node, account);
  let replied = exchangeMessages(handle, now);
  while (replied && node.epochClosed) replied = exchangeMessages(handle, nowMs());
  return replied;
}

/** One message and its reply. False if none arrived, or another request has continued in the meantime. */
function exchangeMessages(handle: Handle, started: number): boolean {
  const { node, options } = worker;
  updateLevel(node, started);
  const planned = planMessage(node, started);
  startMessage(node, planned);
  const { seq, epoch } = node;
  worker.syncing = seq;
  worker.syncingUntil = started + options.timeoutMs + SPARE_MS;
  const message = messageText(worker, planned, countersText(started));
  const reply = callService(handle, options.clusters.control, "/v1/sync", message);
  if (worker.syncing !== seq || node.epoch !== epoch) return false;
  worker.syncingUntil = 0;
  const now = nowMs();
  const answer = reply.status === 200 ? readAnswer(reply.body, planned) : undefined;
  if (answer === undefined) {
    failSync(node, { timedOut: reply.timedOut, started, now, random: luaMath.random() });
    if (node.failuresInARow === 1) handle.logWarn(`tollgate: no reply from the service: ${reply.body}`);
  } else {
    batchReceived();
    apply(handle, answer, { planned, started, now });
  }
  takeDecided(node);
  if (worker.waiting !== undefined && !node.epochClosed) takeWaiters(worker.waiting);
  return answer !== undefined;
}

/** Other nodes need tokens of an app, or of all apps. They are returned with the next message. */
function recallApp(id: string): void {
  const { node, apps, accounts } = worker;
  const account = apps[id];
  if (account !== undefined) recallTokens(node, account);
  if (id === ALL_APPS) for (const one of accounts) recallTokens(node, one);
}

interface SentMessage {
  planned: PlannedSync<EnvoyAccount>[];
  started: number;
  now: number;
}

function apply(handle: Handle, answer: SyncAnswer, { planned, started, now }: SentMessage): void {
  const { node, options } = worker;
  const { emergency, epoch } = node;
  if (answer.configVersion !== worker.configVersion) {
    worker.configVersion = answer.configVersion;
    if (answer.configVersion !== options.configVersion) {
      handle.logWarn(versionWarning("Envoy", options.configVersion, answer.configVersion));
    }
  }
  const nextEpoch = newEpoch(epoch, now, luaMath.random());
  applyReplies(node, { accounts: allAccounts, planned, answer, started, now, nextEpoch });
  for (const id of answer.recalled) recallApp(id);
  serveReplies(node, planned);
  worker.sinceContact = 0;
  worker.lookAt = now + options.lease.syncIntervalMs * reportFactor(node.level);
  if (node.emergency !== emergency) handle.logWarn(emergencyNotice(node.emergency));
  // The next request sends a message at once: to register the new epoch, or to return tokens.
  if (node.epoch !== epoch || (node.emergency && !emergency) || node.urgent.length > 0) {
    worker.lookAt = 0;
    node.lastContact = 0;
  }
}
