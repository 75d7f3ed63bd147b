/** Decides about requests on the lease that all workers share, and settles exchanges. */
import type { PlaneRoute } from "../../../config/options/plane-options.js";
import { countsRequests, price } from "../../../core/cost.js";
import { isRefused } from "../../../core/lease.js";
import { PENDING } from "../../../engine/account.js";
import { DECIDED_SYNC, decide, decideMiss, isLow, MISSED, startDecision, WAIT } from "../../../engine/decide.js";
import { activate } from "../../../engine/node.js";
import { settleExchange } from "../../../engine/settle.js";
import { addWaiter, giveUpExpired, newWaiter, serveFromLease } from "../../../engine/waiters.js";
import { count } from "../../lua/counts.js";
import { nowMs } from "../clock.js";
import { semaphore } from "../ngx.js";
import { type NginxAccount, type NginxNode, type NginxWaiter, worker } from "../state.js";
import { catchUp, newestChange } from "./changes.js";
import type { Exchange } from "./exchanges.js";
import { readRefusedUntil } from "./records.js";
import { giveUpWaiting, wake, wakeDecided, wakeWaiting } from "./syncer.js";

/** One waiter, the watcher, looks this often for replies to other workers. */
const WATCH_SECONDS = 0.002;
/** The other waiters replace a watcher that has not looked for this long. */
const WATCHER_TIMEOUT_MS = 100;

/** Decides about an exchange. May wait for the service. */
export function check(exchange: Exchange, account: NginxAccount, method: string, contentLength: number): void {
  startDecision(exchange, account, method, exchange.route?.profile);
  const { node } = account;
  let step = decide(node, exchange, contentLength);
  if (step === MISSED) {
    catchUp(node);
    readRefusedUntil(account);
    step = decideMiss(node, exchange, nowMs());
    if (step === WAIT) waitForSync(exchange, account);
  }
  if (step === DECIDED_SYNC) wake(account);
  count(exchange);
}

/**
 * Whether a body of unknown length is read before the decision. Not if the app is refused at the moment: its clients must
 * not fill the disk.
 */
export function readsFirst(account: NginxAccount, method: string, route: PlaneRoute | undefined): boolean {
  const { limits, cell, lease } = account;
  const { unknownLength, dryRun } = limits;
  const profile = route?.profile ?? limits.profile;
  if (unknownLength === undefined || unknownLength === "charge" || dryRun || !countsRequests(profile)) return false;
  const cost = price(profile, method, 0);
  if (cell.get() >= cost) return true;
  catchUp(account.node);
  readRefusedUntil(account);
  return !isRefused(lease, cost, nowMs());
}

/** Returns when the exchange is decided. */
function waitForSync(exchange: Exchange, account: NginxAccount): void {
  const waiter = newWaiter(exchange, nowMs() + worker.options.timeoutMs) as NginxWaiter;
  waiter.signal = semaphore.new(0);
  addWaiter(account, waiter);
  wake(account);
  while (exchange.code === PENDING) {
    const now = nowMs();
    const watches =
      worker.watcher === undefined || worker.watcher === waiter || now - worker.watchedAt > WATCHER_TIMEOUT_MS;
    if (watches) worker.watcher = waiter;
    const left = Math.max(waiter.deadline - now, 1) / 1000;
    waiter.signal.wait(Math.min(left, watches ? WATCH_SECONDS : WATCHER_TIMEOUT_MS / 1000));
    if (watches && isPending(exchange)) {
      worker.watchedAt = nowMs();
      for (const node of worker.nodes) if (node.active.length > 0) watch(node);
      wakeWaiting();
    }
    if (isPending(exchange)) {
      giveUpExpired(account.node, account, nowMs());
      wakeDecided(account.node);
    }
  }
  if (worker.watcher === waiter) replaceWatcher();
}

/** The code changes while this request sleeps. */
function isPending(exchange: Exchange): boolean {
  return exchange.code === PENDING;
}

/** Looks whether another worker received a reply, or failed to, and decides the waiters of this worker accordingly. */
function watch(node: NginxNode): void {
  if (newestChange(node) === node.seen) return;
  catchUp(node);
  if (node.failures !== node.failuresSeen) {
    node.failuresSeen = node.failures;
    giveUpWaiting(node);
  } else {
    const now = nowMs();
    for (const account of node.active) serveFromLease(node, account, now);
  }
  wakeDecided(node);
}

function replaceWatcher(): void {
  worker.watcher = undefined;
  for (const node of worker.nodes) {
    for (const account of node.active) {
      const next = account.waiters[0];
      if (next !== undefined) {
        worker.watcher = next;
        next.signal.post(1);
        return;
      }
    }
  }
}

/** An admitted exchange has ended: charges or refunds the difference to its estimate. */
export function settle(exchange: Exchange, requestBytes: number, responseBytes: number): void {
  const { account } = exchange;
  const difference = settleExchange(account, exchange, requestBytes, responseBytes);
  if (difference === 0) return;
  // A refund ends a cached refusal, for all workers.
  if (difference < 0) worker.dict.safe_set(account.refusedUntilKey, 0);
  activate(account.node, account);
  if (isLow(account.node, account, account.cell.get())) wake(account);
}
