/** Requests that wait for the store: decided in order, by whatever worker got the answer. */
import { OK } from "../../../core/codes.js";
import { isRefused, MISS, takeTokens } from "../../../core/lease.js";
import { MOST_SHORT_ANSWERS, waitForOwnRate } from "../../../core/sync.js";
import { nowMs } from "../clock.js";
import { semaphore } from "../ngx.js";
import { type NginxAccount, type Waiter, worker } from "../state.js";
import { catchUp, newestChange } from "./changes.js";

export function newWaiter(cost: number, until: number): Waiter {
  return {
    cost,
    until,
    inMessage: false,
    rounds: 0,
    code: "",
    retryAfterMs: 0,
    source: "remote",
    signal: semaphore.new(0),
  };
}

function decide(waiter: Waiter, code: string, retryAfterMs: number): void {
  waiter.code = code;
  waiter.retryAfterMs = retryAfterMs;
  waiter.signal.post(1);
}

/**
 * After an answer: pays those who wait for an app in this worker, in order. `short` says that it answers this worker's own
 * question, and that the store had too little for it.
 */
export function serve(app: NginxAccount, short: boolean, now: number): void {
  const { waiters, lease, cell } = app;
  if (waiters.length === 0) return;
  const staying: Waiter[] = [];
  let waitingCost = 0;
  for (const waiter of waiters) {
    if (short && waiter.inMessage) waiter.rounds = waiter.rounds + 1;
    if (takeTokens(cell, waiter.cost) !== MISS) {
      decide(waiter, OK, 0);
    } else if (isRefused(lease, waiter.cost, now)) {
      decide(waiter, lease.refusedCode, Math.ceil(lease.refusedUntil - now));
    } else if (waiter.rounds >= MOST_SHORT_ANSWERS) {
      decide(waiter, app.sync.shortCode, waitForOwnRate(waiter.cost, app.limits.guaranteed));
    } else {
      staying.push(waiter);
      waitingCost = waitingCost + waiter.cost;
    }
  }
  app.waiters = staying;
  app.waitingCost = waitingCost;
}

/** Leaves the line without an answer. */
export function leaveLine(app: NginxAccount, gone: Waiter): void {
  const staying: Waiter[] = [];
  let waitingCost = 0;
  for (const waiter of app.waiters) {
    if (waiter !== gone) {
      staying.push(waiter);
      waitingCost = waitingCost + waiter.cost;
    }
  }
  app.waiters = staying;
  app.waitingCost = waitingCost;
}

/** The code of those whom the store does not answer: their app's limits decides. */
export const WITHOUT_STORE = "without_store";

/** Nobody waits any longer. */
export function giveUpAll(): void {
  for (const app of worker.touched) {
    const { waiters } = app;
    app.waiters = [];
    app.waitingCost = 0;
    for (const waiter of waiters) decide(waiter, WITHOUT_STORE, 0);
  }
}

/** Looks whether another worker got an answer, or none, and passes it on to those who wait here. */
export function watch(): void {
  worker.watchedAt = nowMs();
  if (newestChange() === worker.seen) return;
  catchUp();
  if (worker.node.failures !== worker.failuresSeen) {
    worker.failuresSeen = worker.node.failures;
    giveUpAll();
    return;
  }
  const now = nowMs();
  for (const app of worker.touched) serve(app, false, now);
}
