/**
 * The conversation with the service: one message at a time for this worker, sent by the request that finds a reason. There
 * are no timers here: what nobody's request says is not said.
 */
import { EPOCH_CLOSED } from "../../../core/codes.js";
import {
  defaultDegradationOptions,
  degradationLevel,
  observeCall,
  reportFactor,
  STORE_ERROR,
  STORE_OK,
  STORE_TIMEOUT,
} from "../../../core/degradation.js";
import { emergencyRatio } from "../../../core/emergency.js";
import { cutLease, spentTokens } from "../../../core/lease.js";
import {
  bookCounters,
  bookReply,
  HEARTBEAT_MS,
  isAtRest,
  isDue,
  MAX_APPS_PER_MESSAGE,
  type PlannedSync,
  planMessage,
  renewSyncState,
} from "../../../core/sync.js";
import { luaMath } from "../../lua/library.js";
import { type AppInMessage, messageText, parseAnswer, type SyncAnswerText } from "../../lua/sync-text.js";
import { nowMs } from "../clock.js";
import type { Handle } from "../envoy-api.js";
import { newEpoch } from "../epoch.js";
import { numbersHeard, numbersLines } from "../numbers.js";
import { callService, type ServiceReply } from "../service-calls.js";
import { type EnvoyAccount, worker } from "../state.js";

const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 1000;
/** Beyond the deadline of the call: then whoever made it is gone. */
const SPARE_MS = 100;
/** A report alone is worth a call, and the wait of a request, only for so many requests. */
const WORTH_A_REPORT = 50;

interface Planned extends AppInMessage {
  app: EnvoyAccount;
  planned: PlannedSync;
}

export function touch(app: EnvoyAccount): void {
  if (app.touched) return;
  app.touched = true;
  worker.touched.push(app);
}

/** Whether a message may be sent now. */
export function mayTalk(now: number): boolean {
  return !isTalking(now) && now >= worker.retryAt;
}

/** Whether one is under way. A clock that stepped back ends that, too. */
export function isTalking(now: number): boolean {
  return now < worker.syncingUntil && now + worker.settings.timeoutMs + SPARE_MS >= worker.syncingUntil;
}

/** Whether it is time to say something, whatever the lease of the request at hand is like. */
export function isReportWorthwhile(now: number): boolean {
  const elapsed = now - worker.lastContact;
  return elapsed >= HEARTBEAT_MS || elapsed < 0 || worker.sinceContact >= WORTH_A_REPORT;
}

/**
 * One message and its answer; `waiting` is what the request at hand needs of `app`, 0 if it has it already. False where
 * nobody answered.
 */
export function sync(handle: Handle, app: EnvoyAccount, waiting: number, now: number): boolean {
  worker.level = currentLevel(now);
  const planned = plan(app, waiting, now);
  worker.seq = worker.seq + 1;
  const { seq, epoch, settings } = worker;
  worker.syncing = seq;
  worker.syncingUntil = now + settings.timeoutMs + SPARE_MS;
  const message = messageText(worker.name, epoch, seq, false, planned, numbersLines(now));
  const reply = callService(handle, settings.clusters.control, "/v1/sync", message);
  // Another one has taken over.
  if (worker.syncing !== seq || worker.epoch !== epoch) return false;
  worker.syncingUntil = 0;
  const ended = nowMs();
  const answer = reply.status === 200 ? parseAnswer(reply.body) : undefined;
  numbersHeard(answer !== undefined);
  if (answer === undefined) {
    missed(handle, reply, now, ended);
    return false;
  }
  heard(handle, answer, planned, now, ended);
  return true;
}

function currentLevel(now: number): number {
  return degradationLevel(worker.degradation, defaultDegradationOptions, now);
}

/** An app with nothing to say for long leaves the list. */
function plan(asking: EnvoyAccount, waiting: number, now: number): Planned[] {
  const { settings, level } = worker;
  const limits = settings.lease;
  const planned: Planned[] = [];
  const touched: EnvoyAccount[] = [];
  touch(asking);
  for (const app of worker.touched) {
    const { sync, lease, cell } = app;
    const wanted = app === asking ? waiting : 0;
    giveBackIdle(app, now);
    const due = wanted > 0 || isDue(sync, lease, cell, limits, level, wanted, now);
    if (due && planned.length < MAX_APPS_PER_MESSAGE) planned.push(planOne(app, wanted, now));
    if (due || !isAtRest(lease, cell, limits, wanted, now)) touched.push(app);
    else app.touched = false;
  }
  worker.touched = touched;
  return planned;
}

/**
 * What a lease holds for a rate of spending that is past: nobody could give it back while no request came. As much stays
 * as the time since the last report would have needed for a second.
 */
function giveBackIdle(app: EnvoyAccount, now: number): void {
  const { lease, cell } = app;
  const elapsed = now - lease.reportedAt;
  if (elapsed < worker.settings.lease.idleMs) return;
  const spent = Math.max(spentTokens(lease, cell) - lease.spentAtReport, 0);
  const keep = Math.ceil((spent * 1000) / elapsed) + 1;
  const balance = cell.get();
  if (balance > keep) cutLease(lease, cell, keep / balance);
  // Nor is it asked for again: what is measured now counts alone.
  lease.spendRate = -1;
}

function planOne(app: EnvoyAccount, waiting: number, now: number): Planned {
  const { lease, sync, limits, cell } = app;
  const { settings, level } = worker;
  const planned = planMessage(
    sync,
    lease,
    cell,
    settings.lease,
    level,
    limits.guaranteed,
    limits.borrow,
    waiting,
    waiting,
    now,
  );
  sync.unanswered = true;
  return { id: limits.id, app, planned };
}

function heard(handle: Handle, answer: SyncAnswerText, planned: Planned[], started: number, now: number): void {
  const { settings } = worker;
  observeCall(worker.degradation, defaultDegradationOptions, now, STORE_OK, now - started);
  worker.failuresInARow = 0;
  contacted(now);
  worker.liveNodes = Math.max(answer.liveNodes, 1);
  if (answer.configVersion !== worker.configVersion) {
    worker.configVersion = answer.configVersion;
    if (answer.configVersion !== settings.configVersion) tellVersions(handle);
  }
  if (answer.code === EPOCH_CLOSED) {
    renewEpoch(planned, now);
  } else {
    for (const { id, app, planned: sent } of planned) {
      const reply = answer.apps[id];
      if (reply !== undefined) bookReply(app.sync, app.lease, app.cell, sent, reply, now);
      setLowWater(app);
    }
    if (answer.emergency !== worker.emergency) setEmergency(handle, answer.emergency);
  }
  worker.level = currentLevel(now);
}

function contacted(now: number): void {
  const { lease } = worker.settings;
  worker.lastContact = now;
  worker.sinceContact = 0;
  worker.lookAt = now + lease.syncIntervalMs * reportFactor(worker.level);
}

export function setLowWater(app: EnvoyAccount): void {
  app.lowWater = app.lease.target * worker.settings.lease.refillThreshold;
}

function tellVersions(handle: Handle): void {
  handle.logWarn(
    `tollgate: the service has configuration ${worker.configVersion}, this Envoy has ${worker.settings.configVersion}: ` +
      "render it again and load it",
  );
}

function missed(handle: Handle, reply: ServiceReply, started: number, now: number): void {
  noteFailure(reply, started, now);
  let pause = FIRST_RETRY_MS;
  for (let i = 0; i < worker.failuresInARow && pause < LONGEST_RETRY_MS; i++) pause = pause * 2;
  worker.failuresInARow = worker.failuresInARow + 1;
  // One probe at a time, and not all nodes at the same moment.
  worker.retryAt = now + Math.min(pause, LONGEST_RETRY_MS) * (0.5 + luaMath.random() / 2);
  if (worker.failuresInARow === 1) handle.logWarn(`tollgate: the service does not answer: ${reply.body}`);
}

export function noteFailure(reply: ServiceReply, started: number, now: number): void {
  const outcome = reply.timedOut ? STORE_TIMEOUT : STORE_ERROR;
  observeCall(worker.degradation, defaultDegradationOptions, now, outcome, now - started);
  worker.level = currentLevel(now);
}

/** The store has given this epoch up and put its tokens back: drop them, and go on as a new node. */
function renewEpoch(planned: Planned[], now: number): void {
  for (const { app, planned: sent } of planned) bookCounters(app.sync, sent.message);
  for (const app of worker.everyone) renewSyncState(app.sync, app.lease, app.cell, now);
  worker.epoch = newEpoch(worker.epoch);
  worker.seq = 0;
  // The next request speaks for the new node at once.
  worker.lookAt = now;
  worker.lastContact = 0;
}

function setEmergency(handle: Handle, active: boolean): void {
  worker.emergency = active;
  handle.logWarn(active ? "tollgate: emergency" : "tollgate: the emergency is over");
  for (const app of worker.everyone) {
    // What was remembered before holds no more, in either direction.
    app.lease.refusedUntil = 0;
    if (active && app.cell.get() > 0) {
      cutLease(app.lease, app.cell, emergencyRatio(app.limits.priority));
      touch(app);
      // What was cut goes back at once.
      worker.lookAt = 0;
      worker.lastContact = 0;
    }
  }
}
