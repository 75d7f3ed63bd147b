/** Sends syncs of this worker: to each shard one at a time, by the request that has a reason. Without requests nothing is sent. */
import { reportFactor } from "../../../core/degradation.js";
import type { Waiter } from "../../../engine/account.js";
import { newEpoch } from "../../../engine/epoch.js";
import { takeDecided, updateLevel, urge } from "../../../engine/node.js";
import { HEARTBEAT_MS, type PlannedSync, planMessage, startMessage } from "../../../engine/plan.js";
import { applyReplies, failSync, serveReplies } from "../../../engine/reply.js";
import { addWaiter, takeWaiters } from "../../../engine/waiters.js";
import { luaMath } from "../../lua/library.js";
import {
  emergencyNotice,
  messageText,
  readAnswer,
  recallApps,
  type SyncAnswer,
  versionWarning,
} from "../../lua/sync-text.js";
import { nowMs } from "../clock.js";
import { countersText, messageEnded } from "../counters.js";
import type { Handle } from "../envoy-api.js";
import { callService } from "../service-calls.js";
import { type EnvoyAccount, type EnvoyNode, worker } from "../state.js";
import { drop } from "./values.js";

/** After the deadline of a call plus this time, the request that made it has been aborted. */
const SPARE_MS = 100;
/** A report alone is sent, and delays a request, only after this many requests. */
const REPORT_REQUESTS = 50;
/**
 * With several shards, each is contacted this often while requests need it, and any of them once per heartbeat: a reply
 * tells of emergencies and recalls on all shards.
 */
const SHARD_CONTACT_MS = 2 * HEARTBEAT_MS;

/** Whether a sync may start now. */
export function maySync(node: EnvoyNode, now: number): boolean {
  return !isSyncing(node, now) && now >= node.retryAt;
}

/** Whether a message is in flight. A clock that was set back ends it, too. */
export function isSyncing({ syncingUntil }: EnvoyNode, now: number): boolean {
  return now < syncingUntil && now + worker.options.timeoutMs + SPARE_MS >= syncingUntil;
}

/** Whether a report is due, independent of the current request. */
export function isReportDue(node: EnvoyNode, now: number): boolean {
  const elapsed = now - node.lastContact;
  if (now < node.lookAt && elapsed >= 0) return false;
  if (elapsed < 0 || node.sinceContact >= REPORT_REQUESTS || node.urgent.length > 0) return true;
  if (elapsed < HEARTBEAT_MS) return false;
  if (elapsed >= SHARD_CONTACT_MS || worker.nodes.length === 1) return true;
  const sinceAny = now - worker.lastContact;
  return sinceAny >= HEARTBEAT_MS || sinceAny < 0;
}

/**
 * Sends a message and applies the reply; false if none arrived. A `waiter` is decided by the reply or the failure, unless
 * the reply leaves it open: then it waits no longer.
 */
export function sendSync(handle: Handle, account: EnvoyAccount, waiter: Waiter | undefined, now: number): boolean {
  const { node } = account;
  // A waiter that is still there belongs to an aborted request.
  if (node.waiting !== undefined) takeWaiters(node.waiting);
  node.waiting = account;
  if (waiter !== undefined) addWaiter(account, waiter);
  urge(node, account);
  let replied = exchangeMessages(handle, node, now);
  while (replied && node.epochClosed) replied = exchangeMessages(handle, node, nowMs());
  return replied;
}

/** One message and its reply. False if none arrived, or another request has continued in the meantime. */
function exchangeMessages(handle: Handle, node: EnvoyNode, started: number): boolean {
  const { name, options } = worker;
  updateLevel(node, started);
  const planned = planMessage(node, started);
  for (const account of node.departed) if (account.isValue) drop(account);
  startMessage(node, planned);
  const { seq, epoch } = node;
  node.syncing = seq;
  node.syncingUntil = started + options.timeoutMs + SPARE_MS;
  const message = messageText({ name, node }, planned, countersText(node, started, node.syncingUntil));
  const reply = callService(handle, options.clusters.control, "/v1/sync", message);
  if (node.syncing !== seq || node.epoch !== epoch) return false;
  node.syncingUntil = 0;
  const now = nowMs();
  const answer = reply.status === 200 ? readAnswer(reply.body, planned) : undefined;
  messageEnded(node, answer !== undefined);
  if (answer === undefined) {
    failSync(node, { timedOut: reply.timedOut, started, now, random: luaMath.random() });
    if (node.failuresInARow === 1) handle.logWarn(`tollgate: no reply from the service: ${reply.body}`);
  } else {
    apply(handle, node, answer, { planned, started, now });
  }
  takeDecided(node);
  if (node.waiting !== undefined && !node.epochClosed) takeWaiters(node.waiting);
  return answer !== undefined;
}

interface SentMessage {
  planned: PlannedSync<EnvoyAccount>[];
  started: number;
  now: number;
}

function apply(handle: Handle, node: EnvoyNode, answer: SyncAnswer, { planned, started, now }: SentMessage): void {
  const { options } = worker;
  const { emergency, epoch } = node;
  worker.lastContact = now;
  if (answer.configVersion !== worker.configVersion) {
    worker.configVersion = answer.configVersion;
    if (answer.configVersion !== options.configVersion) {
      handle.logWarn(versionWarning("Envoy", options.configVersion, answer.configVersion));
    }
  }
  const nextEpoch = newEpoch(epoch, now, luaMath.random());
  const accounts = () => node.accounts;
  applyReplies(node, { accounts, planned, answer, started, now, nextEpoch });
  // They are returned with the next message.
  const recalled = recallApps(answer.recalled, worker.nodes, worker.byId);
  for (const other of recalled) if (other.urgent.length > 0) contactSoon(other);
  serveReplies(node, planned);
  node.sinceContact = 0;
  node.lookAt = now + options.lease.syncIntervalMs * reportFactor(node.level);
  if (node.emergency !== emergency) emergencyChanged(handle, node);
  // To register the new epoch, or to return tokens.
  if (node.epoch !== epoch || (node.emergency && !emergency) || node.urgent.length > 0) contactSoon(node);
}

/** The next request of the shard sends a message before it is decided. */
export function contactSoon(node: EnvoyNode): void {
  node.lookAt = 0;
  node.lastContact = 0;
}

/** The other shards are asked before their next request, because each reply changes only what belongs to its shard. */
function emergencyChanged(handle: Handle, node: EnvoyNode): void {
  let known = false;
  for (const other of worker.nodes) {
    if (other !== node && other.emergency === node.emergency) known = true;
    if (other.emergency !== node.emergency) contactSoon(other);
  }
  if (!known) handle.logWarn(emergencyNotice(node.emergency));
}
