/** L3 on nginx: decides from the lease that all workers share, asks the service once for many, goes on when it is gone. */
import { INVALID_ARGUMENT, OK, STORE_UNAVAILABLE } from "../../../core/codes.js";
import {
  estimate,
  INVALID_COST,
  type LearnedSizes,
  learnSizes,
  newLearnedSizes,
  price,
  settlement,
} from "../../../core/cost.js";
import { mayWaitForStore, withoutStoreAllowance } from "../../../core/degradation.js";
import { isRefused, MISS, settleTokens, takeAllowance, takeUncovered } from "../../../core/lease.js";
import { isScarce } from "../../../core/sync.js";
import { count } from "../../lua/tally.js";
import { nowMs } from "../clock.js";
import { ngx } from "../ngx.js";
import { type NginxAccount, type Waiter, worker } from "../state.js";
import { catchUp } from "./changes.js";
import type { Exchange } from "./exchanges.js";
import { readRefusedUntil } from "./records.js";
import { sharedCell, takeShared } from "./shared-cell.js";
import { touch, wake } from "./syncer.js";
import { leaveLine, newWaiter, WITHOUT_STORE, watch } from "./waiting.js";

const MAX_WAITERS = 10000;
/** How often one of those who wait looks for answers to other workers. */
const WATCH_SECONDS = 0.002;
/** The others look whether it still does. */
const WATCHER_IS_GONE_MS = 100;

/** Sizes learned for a method. Methods that HTTP does not define share one memory, so that they cannot grow it. */
function learnedSizes(app: NginxAccount, method: string): LearnedSizes {
  const base = app.limits.profile.base as { [method: string]: number | undefined };
  const name = base[method] === undefined ? "other" : method;
  let learned = app.learned[name];
  if (learned === undefined) {
    learned = newLearnedSizes();
    app.learned[name] = learned;
  }
  return learned;
}

/** Decides about an exchange: its code, cost, balance and where that was found. May wait for the service. */
export function check(exchange: Exchange, app: NginxAccount, method: string, contentLength: number): void {
  const cost = estimate(app.limits.profile, method, contentLength, learnedSizes(app, method));
  exchange.app = app;
  exchange.method = method;
  exchange.retryAfterMs = 0;
  if (cost === INVALID_COST) {
    exchange.cost = 0;
    conclude(exchange, app, "local", INVALID_ARGUMENT, app.cell.get());
    return;
  }
  exchange.cost = cost;
  const left = takeShared(app.cell, cost);
  if (left !== MISS) {
    spent(app, left);
    conclude(exchange, app, "local", OK, left);
    return;
  }
  miss(exchange, app, cost);
}

function conclude(exchange: Exchange, app: NginxAccount, source: string, code: string, balance: number): void {
  exchange.code = code;
  exchange.balance = balance;
  exchange.source = source;
  // A dry run forgives a limit, not a request that makes no sense.
  exchange.allowed = code === OK || (app.limits.dryRun && code !== INVALID_ARGUMENT);
  count(exchange);
}

function spent(app: NginxAccount, left: number): void {
  if (!app.touched) touch(app);
  if (left < app.lease.target * worker.settings.lease.refillThreshold) wake(app);
}

function miss(exchange: Exchange, app: NginxAccount, cost: number): void {
  catchUp();
  readRefusedUntil(app);
  const now = nowMs();
  const { lease } = app;
  if (isRefused(lease, cost, now)) {
    exchange.retryAfterMs = Math.ceil(lease.refusedUntil - now);
    conclude(exchange, app, "cached", lease.refusedCode, app.cell.get());
    return;
  }
  if (!mayWaitForStore(worker.level) || app.waiters.length >= MAX_WAITERS) {
    // It does not wait, but the next ones shall find tokens as soon as the store gives some.
    lease.activeAt = now;
    touch(app);
    wake(app);
    dark(exchange, app, cost);
    return;
  }
  const waiter = newWaiter(cost, now + worker.settings.timeoutMs);
  app.waiters.push(waiter);
  app.waitingCost = app.waitingCost + cost;
  touch(app);
  wake(app);
  wait(app, waiter);
  if (waiter.code === WITHOUT_STORE) {
    dark(exchange, app, cost);
    return;
  }
  exchange.retryAfterMs = waiter.retryAfterMs;
  conclude(exchange, app, "remote", waiter.code, app.cell.get());
}

/** Returns once the waiter has a code. */
function wait(app: NginxAccount, waiter: Waiter): void {
  while (waiter.code === "") {
    let now = nowMs();
    const watches =
      worker.watcher === undefined || worker.watcher === waiter || now - worker.watchedAt > WATCHER_IS_GONE_MS;
    if (watches) worker.watcher = waiter;
    const left = Math.max(waiter.until - now, 1) / 1000;
    waiter.signal.wait(Math.min(left, watches ? WATCH_SECONDS : WATCHER_IS_GONE_MS / 1000));
    if (watches && waiter.code === "") {
      watch();
      now = nowMs();
      if (waiter.code === "" && !isScarce(app.sync, now)) wakeWaiting();
    }
    if (waiter.code === "" && nowMs() >= waiter.until) {
      leaveLine(app, waiter);
      waiter.code = WITHOUT_STORE;
    }
  }
  if (worker.watcher === waiter) handOver();
}

/** Whoever waits is asked for as soon as that makes sense. */
function wakeWaiting(): void {
  for (const app of worker.touched) if (app.waitingCost > 0) wake(app);
}

function handOver(): void {
  worker.watcher = undefined;
  for (const app of worker.touched) {
    const next = app.waiters[0];
    if (next !== undefined) {
      worker.watcher = next;
      next.signal.post(1);
      return;
    }
  }
}

/** Without the store: what the app's limits allows, to be charged when the store is back; else 503. */
function dark(exchange: Exchange, app: NginxAccount, cost: number): void {
  const { onStoreFailure, guaranteed, id } = app.limits;
  const { dict, settings, node } = worker;
  const allowance = withoutStoreAllowance(onStoreFailure, settings.failOpenTokens, guaranteed, node.liveNodes);
  const second = Math.floor(ngx.now());
  // Two counters take turns; each is gone again before its second comes round.
  const key = (second - Math.floor(second / 2) * 2 === 0 ? "d0:" : "d1:") + id;
  dict.safe_add(key, 0, 1);
  if (!takeAllowance(sharedCell(dict, key), allowance, cost)) {
    exchange.retryAfterMs = 1000;
    conclude(exchange, app, "without_store", STORE_UNAVAILABLE, app.cell.get());
    return;
  }
  const left = takeUncovered(app.cell, cost);
  spent(app, left);
  conclude(exchange, app, "without_store", OK, left);
}

/** An admitted exchange has ended: what really moved is charged, or given back, and learned from. */
export function settle(exchange: Exchange, requestBytes: number, responseBytes: number): void {
  const { app, method, cost, code } = exchange;
  learnSizes(learnedSizes(app, method), requestBytes, responseBytes);
  // Passed on a dry run: nothing was taken, so there is nothing to charge or to give back.
  if (code !== OK) return;
  const actual = price(app.limits.profile, method, requestBytes + responseBytes);
  if (actual === INVALID_COST || actual === cost) return;
  const difference = settlement(cost, actual);
  settleTokens(app.lease, app.cell, difference);
  if (difference < 0) worker.dict.safe_set(app.refusedUntilKey, 0);
  spent(app, app.cell.get());
}
