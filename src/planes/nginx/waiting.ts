/**
 * Requests that wait for a sync: each sleeps on a semaphore. One of them, the watcher, looks for replies to other workers; all
 * waiters of this worker are served from them.
 */
import { type Outcome, PENDING, type Waiter } from "../../engine/account.js";
import { giveUpWaiting, wakeDecided } from "../../engine/sync-loop.js";
import { addWaiter, giveUpExpired, newWaiter, serveFromLease } from "../../engine/waiters.js";
import { running } from "../lua/host.js";
import { catchUp, newestChange } from "../lua/http/changes.js";
import { type PlaneAccount, type PlaneNode, worker } from "../lua/http/state.js";
import { wake, wakeWaiting } from "../lua/http/syncer.js";
import { nowMs } from "./clock.js";
import { type Semaphore, semaphore } from "./ngx.js";
import { nginx } from "./state.js";

/** A request in this worker that waits for a sync. */
interface NginxWaiter extends Waiter {
  signal: Semaphore;
}

/** The watcher looks this often. */
const WATCH_SECONDS = 0.002;
/** The other waiters replace a watcher that has not looked for this long. */
const WATCHER_TIMEOUT_MS = 100;

/** Of the host. */
export function awaitTokens(this: void, outcomes: Outcome<PlaneAccount>[]): void {
  const signal = semaphore.new(0);
  const deadline = nowMs() + worker.options.timeoutMs;
  for (const outcome of outcomes) {
    const waiter = newWaiter(outcome, deadline) as NginxWaiter;
    waiter.signal = signal;
    const { account } = outcome;
    addWaiter(account, waiter);
    wake(account);
  }
  waitFor(signal, outcomes, deadline);
}

/** Of the host. */
export function wakeWaiter(this: void, waiter: Waiter): void {
  (waiter as NginxWaiter).signal.post(1);
}

/** Returns when all outcomes are decided. */
function waitFor(signal: Semaphore, outcomes: Outcome<PlaneAccount>[], deadline: number): void {
  while (isAnyPending(outcomes)) {
    const now = nowMs();
    const watches =
      nginx.watcher === undefined || nginx.watcher === signal || now - nginx.watchedAt > WATCHER_TIMEOUT_MS;
    if (watches) nginx.watcher = signal;
    const left = Math.max(deadline - now, 1) / 1000;
    signal.wait(Math.min(left, watches ? WATCH_SECONDS : WATCHER_TIMEOUT_MS / 1000));
    if (watches && isAnyPending(outcomes)) watchReplies();
    for (const outcome of outcomes) if (outcome.code === PENDING) giveUpIfExpired(outcome.account);
  }
  if (nginx.watcher === signal) replaceWatcher();
}

function giveUpIfExpired(account: PlaneAccount): void {
  giveUpExpired(account.node, account, nowMs());
  wakeDecided(running.sync, account.node);
}

/** Codes change while the request sleeps. */
function isAnyPending(outcomes: Outcome<PlaneAccount>[]): boolean {
  for (const { code } of outcomes) if (code === PENDING) return true;
  return false;
}

function watchReplies(): void {
  nginx.watchedAt = nowMs();
  for (const node of worker.nodes) if (node.active.length > 0) watch(node);
  wakeWaiting();
}

/** Looks whether another worker received a reply, or failed to, and decides the waiters of this worker accordingly. */
function watch(node: PlaneNode): void {
  if (newestChange(node) === node.seen) return;
  catchUp(node);
  if (node.failures !== node.failuresSeen) {
    node.failuresSeen = node.failures;
    giveUpWaiting(running.sync, node);
  } else {
    const now = nowMs();
    for (const account of node.active) serveFromLease(node, account, now);
    wakeDecided(running.sync, node);
  }
}

function replaceWatcher(): void {
  nginx.watcher = undefined;
  for (const node of worker.nodes) {
    for (const account of node.active) {
      const next = account.waiters[0];
      if (next !== undefined) {
        const { signal } = next as NginxWaiter;
        nginx.watcher = signal;
        signal.post(1);
        return;
      }
    }
  }
}
