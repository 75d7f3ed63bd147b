/** The conversation with the service: one message at a time for the whole nginx, sent by whichever worker has a reason. */
import { EPOCH_CLOSED } from "../../../core/codes.js";
import {
  defaultDegradationOptions,
  degradationLevel,
  observeCall,
  STORE_ERROR,
  STORE_OK,
  STORE_TIMEOUT,
} from "../../../core/degradation.js";
import { emergencyRatio } from "../../../core/emergency.js";
import { cutLease } from "../../../core/lease.js";
import {
  bookCounters,
  bookReply,
  HEARTBEAT_MS,
  isAtRest,
  isDue,
  isLeavingDue,
  isScarce,
  isShort,
  MAX_APPS_PER_MESSAGE,
  type PlannedSync,
  planLastMessage,
  planMessage,
  renewSyncState,
} from "../../../core/sync.js";
import { luaMath, pcall } from "../../lua/library.js";
import { type AppInMessage, messageText, parseAnswer, type SyncAnswerText } from "../../lua/sync-text.js";
import { freshNowMs, nowMs } from "../clock.js";
import { newEpoch } from "../epoch.js";
import { holdsLock, releaseLock, takeLock } from "../lock.js";
import { ngx } from "../ngx.js";
import { callService, type ServiceReply } from "../service-client.js";
import { type NginxAccount, worker } from "../state.js";
import { nodeLine } from "../status.js";
import { announce, catchUp } from "./changes.js";
import { addUpCounts, batchHeard, batchText } from "./counters.js";
import { writeApp, writeNode } from "./records.js";
import { type PouringCell, pourIn, pouringCell } from "./shared-cell.js";
import { giveUpAll, serve } from "./waiting.js";

const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 1000;

export interface Planned extends AppInMessage {
  app: NginxAccount;
  cell: PouringCell;
  planned: PlannedSync;
}

export function touch(app: NginxAccount): void {
  if (app.touched) return;
  app.touched = true;
  worker.touched.push(app);
}

/** Sends a message as soon as this turn of the event loop is over, so that all who miss in it share one. */
export function wake(app: NginxAccount): void {
  if (worker.soon || worker.syncing) return;
  const now = nowMs();
  if (now < worker.node.retryAt || isScarce(app.sync, now)) return;
  const [set] = ngx.timer.at(0, onWake);
  worker.soon = set === true;
}

function onWake(_premature: boolean): void {
  worker.soon = false;
  runSync();
}

/** Sends what is due, unless another worker is just doing so. An error in it must not keep the next one from coming. */
export function runSync(): void {
  if (worker.syncing || !takeLock()) return;
  worker.syncing = true;
  const [fine, problem] = pcall(syncOnce);
  worker.syncing = false;
  releaseLock();
  if (!fine) ngx.log(ngx.ERR, "tollgate: sync failed: ", problem);
}

/** The store has given the epoch up, and has still to hear of messages whose answers were lost in it. */
const epoch = { closed: false };

function syncOnce(): void {
  epoch.closed = false;
  // While it is urgent, and the answer left some waiting, the next message follows at once.
  let again = true;
  while (again && holdsLock()) {
    catchUp();
    again = sendMessage() && (epoch.closed || anyUrgent());
  }
}

function anyUrgent(): boolean {
  const now = nowMs();
  for (const app of worker.touched) {
    if (app.waitingCost > 0 && !isScarce(app.sync, now)) return true;
  }
  return false;
}

/** One message and its answer. False where there was nothing to say or nobody answered. */
function sendMessage(): boolean {
  const { node } = worker;
  const now = freshNowMs();
  if (now < node.retryAt) return false;
  addUpCounts();
  worker.level = currentLevel(now);
  const planned = plan(now);
  if (planned.length === 0 && now - node.lastContact < HEARTBEAT_MS && now >= node.lastContact) return false;
  node.seq = node.seq + 1;
  node.syncs = node.syncs + 1;
  // What goes back, and the number of the message, must be known to whoever goes on if this worker dies.
  for (const { app, cell } of planned) {
    app.sync.unanswered = true;
    writeApp(app);
    pourIn(cell);
  }
  writeNode();
  const batch = batchText(now, false);
  const message = messageText(worker.name, node.epoch, node.seq, false, planned, nodeLine() + batch);
  const reply = callService("/v1/sync", message, worker.settings.timeoutMs);
  const ended = freshNowMs();
  // Paused for longer than the lock lasts: another worker has gone on, and its next message brings what this one got.
  if (!holdsLock()) return false;
  const answer = reply.status === 200 ? parseAnswer(reply.body) : undefined;
  if (answer === undefined) {
    missed(reply, now, ended);
    return false;
  }
  batchHeard(batch);
  heard(answer, planned, now, ended);
  return true;
}

function currentLevel(now: number): number {
  return degradationLevel(worker.degradation, defaultDegradationOptions, now);
}

/** An app with nothing to say for long leaves the list. */
function plan(now: number): Planned[] {
  const limits = worker.settings.lease;
  const planned: Planned[] = [];
  const touched: NginxAccount[] = [];
  for (const app of worker.touched) {
    const due = hasNews(app, now);
    if (due && planned.length < MAX_APPS_PER_MESSAGE) planned.push(planOne(app, now));
    if (due || !(app.leaving || isAtRest(app.lease, app.cell, limits, app.waitingCost, now))) touched.push(app);
    else app.touched = false;
  }
  worker.touched = touched;
  return planned;
}

function hasNews({ sync, lease, cell, leaving, waitingCost }: NginxAccount, now: number): boolean {
  if (epoch.closed) return sync.unanswered;
  if (leaving) return isLeavingDue(sync, lease, cell);
  return isDue(sync, lease, cell, worker.settings.lease, worker.level, waitingCost, now);
}

function planOne(app: NginxAccount, now: number): Planned {
  const { lease, sync, limits, waiters, waitingCost } = app;
  const cell = pouringCell(app.cell);
  for (const waiter of waiters) waiter.inMessage = true;
  const first = waiters[0];
  const firstCost = first === undefined ? 0 : first.cost;
  const { settings, level } = worker;
  const planned = app.leaving
    ? planLastMessage(lease, cell)
    : planMessage(
        sync,
        lease,
        cell,
        settings.lease,
        level,
        limits.guaranteed,
        limits.borrow,
        firstCost,
        waitingCost,
        now,
      );
  return { id: limits.id, app, cell, planned };
}

function heard(answer: SyncAnswerText, planned: Planned[], started: number, now: number): void {
  const { node, degradation } = worker;
  observeCall(degradation, defaultDegradationOptions, now, STORE_OK, now - started);
  node.failuresInARow = 0;
  node.lastContact = now;
  node.liveNodes = Math.max(answer.liveNodes, 1);
  node.configVersion = answer.configVersion;
  if (node.configVersion !== worker.settings.configVersion) tellVersions();
  const changed: NginxAccount[] = [];
  if (answer.code === EPOCH_CLOSED) {
    closeEpoch(planned, now);
    for (const app of worker.everyone) changed.push(app);
  } else {
    for (const one of planned) {
      changed.push(one.app);
      book(one, answer, now);
    }
    if (answer.emergency !== node.emergency) setEmergency(answer.emergency, changed);
  }
  worker.level = currentLevel(now);
  writeNode();
  announce(changed);
}

const TOLD = "told";

/** Once for each pair of versions, by whichever worker sees it first. */
function tellVersions(): void {
  const { dict, settings, node } = worker;
  const versions = `${settings.configVersion} ${node.configVersion}`;
  if (dict.get(TOLD) === versions) return;
  dict.safe_set(TOLD, versions);
  ngx.log(
    ngx.WARN,
    "tollgate: the service has configuration ",
    node.configVersion,
    ", this nginx has ",
    settings.configVersion,
    ": render it again and reload",
  );
}

function book({ id, app, cell, planned }: Planned, answer: SyncAnswerText, now: number): void {
  const reply = answer.apps[id];
  let decides = false;
  if (reply !== undefined) decides = bookReply(app.sync, app.lease, cell, planned, reply, now);
  // First the record, then the tokens: see PouringCell.
  writeApp(app);
  pourIn(cell);
  if (decides && reply !== undefined) serve(app, isShort(planned, reply), now);
}

function missed(reply: ServiceReply, started: number, now: number): void {
  const { node, degradation } = worker;
  observeCall(degradation, defaultDegradationOptions, now, reply.timedOut ? STORE_TIMEOUT : STORE_ERROR, now - started);
  node.failures = node.failures + 1;
  let pause = FIRST_RETRY_MS;
  for (let i = 0; i < node.failuresInARow && pause < LONGEST_RETRY_MS; i++) pause = pause * 2;
  node.failuresInARow = node.failuresInARow + 1;
  // One probe at a time, and not all nodes at the same moment.
  node.retryAt = now + Math.min(pause, LONGEST_RETRY_MS) * (0.5 + luaMath.random() / 2);
  worker.level = currentLevel(now);
  writeNode();
  announce([]);
  worker.failuresSeen = node.failures;
  if (node.failuresInARow === 1) {
    ngx.log(ngx.WARN, "tollgate: the service does not answer: ", reply.status > 0 ? reply.body : reply.problem);
  }
  giveUpAll();
}

/**
 * The store has given this epoch up and put its tokens back. It still books what it hears of it: where an answer was lost
 * before, nobody here knows whether the spending it was about is charged, so that is said again before a new epoch begins.
 */
function closeEpoch(planned: Planned[], now: number): void {
  for (const { app, cell, planned: sent } of planned) {
    bookCounters(app.sync, sent.message);
    writeApp(app);
    pourIn(cell);
  }
  epoch.closed = false;
  for (const app of worker.everyone) {
    if (app.sync.unanswered) {
      epoch.closed = true;
      touch(app);
    }
  }
  if (!epoch.closed) renewEpoch(now);
}

/** Drops the tokens and goes on as a new node. */
function renewEpoch(now: number): void {
  const { node } = worker;
  for (const app of worker.everyone) {
    const cell = pouringCell(app.cell);
    renewSyncState(app.sync, app.lease, cell, now);
    writeApp(app);
    pourIn(cell);
  }
  node.epoch = newEpoch(node.epoch);
  node.seq = 0;
}

function setEmergency(active: boolean, changed: NginxAccount[]): void {
  worker.node.emergency = active;
  ngx.log(ngx.WARN, active ? "tollgate: emergency" : "tollgate: the emergency is over");
  for (const app of worker.everyone) {
    // What was remembered before holds no more, in either direction.
    const remembered = app.lease.refusedUntil !== 0;
    const holds = app.cell.get() > 0;
    app.lease.refusedUntil = 0;
    const cell = pouringCell(app.cell);
    if (active && holds) {
      cutLease(app.lease, cell, emergencyRatio(app.limits.priority));
      touch(app);
    }
    if (remembered || holds) {
      writeApp(app);
      pourIn(cell);
      changed.push(app);
    }
  }
}
