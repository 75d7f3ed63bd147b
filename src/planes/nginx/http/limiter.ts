/** Decides about requests on the leases that all workers share, and settles exchanges. */
import type { PlaneRoute } from "../../../config/options/plane-options.js";
import { OK } from "../../../core/codes.js";
import { countsRequests, price } from "../../../core/cost.js";
import { isRefused } from "../../../core/lease.js";
import { type Outcome, PENDING } from "../../../engine/account.js";
import { DECIDED_SYNC, decide, decideMiss, isLow, MISSED, WAIT } from "../../../engine/decide.js";
import { activate } from "../../../engine/node.js";
import { actualCost, refund, settleExchange, settleLimit } from "../../../engine/settle.js";
import { ALL_TAKEN, allAllowed, refuseTogether, takeTogether } from "../../../engine/together.js";
import { addWaiter, giveUpExpired, newWaiter } from "../../../engine/waiters.js";
import { count, countLimit } from "../../lua/counts.js";
import { startExchange } from "../../lua/exchange.js";
import { endLimits, INVALID, TAKEN, takeLimits } from "../../lua/limit-outcomes.js";
import { nowMs } from "../clock.js";
import { type Semaphore, semaphore } from "../ngx.js";
import { type NginxAccount, type NginxWaiter, worker } from "../state.js";
import { catchUp } from "./changes.js";
import type { Exchange } from "./exchanges.js";
import { readRefusedUntil } from "./records.js";
import { wake, wakeDecided } from "./syncer.js";
import { keepValue, valueAccount, valueAgain } from "./values.js";
import { replaceWatcher, WATCH_SECONDS, WATCHER_TIMEOUT_MS, watchReplies } from "./watcher.js";

/** Decides about an exchange whose app is its only limit. May wait for the service. */
export function check(exchange: Exchange, account: NginxAccount, method: string, contentLength: number): void {
  startExchange(exchange, account, method);
  const { node } = account;
  const step = decide(node, exchange, contentLength);
  if (step === MISSED) {
    const signal = waitOrDecide(exchange, account, undefined);
    if (signal !== undefined) waitFor(signal, [exchange]);
  }
  if (step === DECIDED_SYNC) wake(account);
  count(exchange);
}

/** The same for an exchange with limits that match. */
export function checkLimits(exchange: Exchange, account: NginxAccount, method: string, contentLength: number): void {
  startExchange(exchange, account, method);
  const result = takeLimits(exchange, contentLength, valueAccount);
  if (result === INVALID) return;
  const taken = result === TAKEN;
  const outcomes = exchange.outcomes!;
  if (!taken) decideTogether(outcomes);
  else spent(account, exchange.balance);
  endLimits(exchange, taken);
  const limits = exchange.matched!.count;
  for (let i = 1; i <= limits; i++) {
    const outcome = outcomes[i]!;
    countLimit(outcome);
    if (taken) spent(accountOf(outcome), outcome.balance);
  }
}

/** Some lease cannot pay, or a value is denied. */
function decideTogether(outcomes: Outcome[]): void {
  for (const { account } of outcomes) readShared(account as NginxAccount);
  if (refuseTogether(outcomes, nowMs())) return;
  let signal: Semaphore | undefined;
  for (const outcome of outcomes) {
    // A dry run of a denied value, or of a cost that the limit can never pay, is decided.
    if (outcome.code === OK) {
      const account = accountOf(outcome);
      if (takeTogether([outcome]) === ALL_TAKEN) spent(account, outcome.balance);
      else signal = waitOrDecide(outcome, account, signal);
    }
  }
  if (signal !== undefined) waitFor(signal, outcomes);
  if (allAllowed(outcomes)) return;
  // A refused request uses nothing.
  for (const outcome of outcomes) {
    if (outcome.code === OK && outcome.cost > 0) {
      const account = currentAccount(outcome);
      refund(account, outcome.cost);
      refunded(account);
    }
  }
}

function accountOf({ account }: Outcome): NginxAccount {
  return account as NginxAccount;
}

/** A value may have been released while the exchange was open. */
function currentAccount(outcome: Outcome): NginxAccount {
  const account = accountOf(outcome);
  if (!account.isValue) return account;
  const { limits } = account;
  const current = worker.byId[limits.id];
  return current !== undefined && !current.leaving ? current : valueAgain(account);
}

function spent(account: NginxAccount, balance: number): void {
  if (!account.active) activate(account.node, account);
  if (isLow(account.node, account, balance)) wake(account);
}

/** Reads what other workers know about the account. */
function readShared(account: NginxAccount): void {
  catchUp(account.node);
  readRefusedUntil(account);
  keepValue(account);
}

/** The lease cannot pay: decides, or adds a waiter with the signal, or a new one, and returns the signal. */
function waitOrDecide(outcome: Outcome, account: NginxAccount, signal: Semaphore | undefined): Semaphore | undefined {
  readShared(account);
  const step = decideMiss(account.node, outcome, nowMs());
  if (step === DECIDED_SYNC) wake(account);
  if (step !== WAIT) return signal;
  const waiter = newWaiter(outcome, nowMs() + worker.options.timeoutMs) as NginxWaiter;
  waiter.signal = signal ?? semaphore.new(0);
  addWaiter(account, waiter);
  wake(account);
  return waiter.signal;
}

/**
 * Whether a body of unknown length is read before the decision. Not if the app is refused at the moment: its clients must
 * not fill the disk.
 */
export function readsFirst(account: NginxAccount, method: string, route: PlaneRoute): boolean {
  const { limits, cell, lease } = account;
  const { unknownLength, dryRun } = limits;
  const profile = route.profile ?? limits.profile;
  if (unknownLength === undefined || unknownLength === "charge" || dryRun || !countsRequests(profile)) return false;
  const cost = price(profile, method, 0);
  if (cell.get() >= cost) return true;
  catchUp(account.node);
  readRefusedUntil(account);
  return !isRefused(lease, cost, nowMs());
}

/** Returns when all outcomes are decided. */
function waitFor(signal: Semaphore, outcomes: Outcome[]): void {
  const deadline = nowMs() + worker.options.timeoutMs;
  while (isAnyPending(outcomes)) {
    const now = nowMs();
    const watches =
      worker.watcher === undefined || worker.watcher === signal || now - worker.watchedAt > WATCHER_TIMEOUT_MS;
    if (watches) worker.watcher = signal;
    const left = Math.max(deadline - now, 1) / 1000;
    signal.wait(Math.min(left, watches ? WATCH_SECONDS : WATCHER_TIMEOUT_MS / 1000));
    if (watches && isAnyPending(outcomes)) watchReplies();
    for (const outcome of outcomes) if (outcome.code === PENDING) giveUpIfExpired(accountOf(outcome));
  }
  if (worker.watcher === signal) replaceWatcher();
}

function giveUpIfExpired(account: NginxAccount): void {
  giveUpExpired(account.node, account, nowMs());
  wakeDecided(account.node);
}

/** Codes change while the request sleeps. */
function isAnyPending(outcomes: Outcome[]): boolean {
  for (const { code } of outcomes) if (code === PENDING) return true;
  return false;
}

/** An admitted exchange has ended: charges or refunds the difference to its estimate. */
export function settle(exchange: Exchange, requestBytes: number, responseBytes: number): void {
  const { account } = exchange;
  if (exchange.limited) {
    if (exchange.settlesLimits) settleLimits(exchange, requestBytes, responseBytes);
    exchange.code = exchange.appCode;
  }
  corrected(account, settleExchange(account, exchange, requestBytes, responseBytes));
}

/** Corrects the limits that count by cost. */
function settleLimits(exchange: Exchange, requestBytes: number, responseBytes: number): void {
  const outcomes = exchange.outcomes!;
  const actual = actualCost(exchange, requestBytes, responseBytes);
  for (let i = 1; i < outcomes.length; i++) {
    const outcome = outcomes[i]!;
    if (outcome.rule!.countsCost && outcome.code === OK) {
      const account = currentAccount(outcome);
      settleLimit(account, outcome.cost, actual);
      corrected(account, actual - outcome.cost);
    }
  }
}

/** Tokens were charged (positive) or refunded (negative). */
function corrected(account: NginxAccount, difference: number): void {
  if (difference === 0) return;
  if (difference < 0) refunded(account);
  else spent(account, account.cell.get());
}

/** A refund ends a cached refusal, for all workers. */
function refunded(account: NginxAccount): void {
  worker.dict.delete(account.refusedUntilKey);
  spent(account, account.cell.get());
}
