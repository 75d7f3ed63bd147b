/** Decides about requests on the leases that all workers share, and settles exchanges. */
import type { PlaneRoute } from "../../../config/options/plane-options.js";
import { OK } from "../../../core/codes.js";
import { countsRequests, price } from "../../../core/cost.js";
import { isRefused } from "../../../core/lease.js";
import type { Outcome } from "../../../engine/account.js";
import { DECIDED_SYNC, decide, decideCost, decideMiss, isLow, MISSED, WAIT } from "../../../engine/decide.js";
import { activate } from "../../../engine/node.js";
import { actualCost, refund, settleExchange, settleLimit } from "../../../engine/settle.js";
import { ALL_TAKEN, allAllowed, refuseTogether, takeTogether } from "../../../engine/together.js";
import { count, countLimit } from "../counts.js";
import { startExchange } from "../exchange.js";
import { nowMs, running } from "../host.js";
import { endLimits, INVALID, TAKEN, takeLimits } from "../limit-outcomes.js";
import { catchUp } from "./changes.js";
import type { Exchange } from "./exchanges.js";
import { readRefusedUntil } from "./records.js";
import { type PlaneAccount, worker } from "./state.js";
import { keepValue, valueAccount, valueAgain } from "./values.js";

/** Decides about an exchange whose app is its only limit. May wait for the service. */
export function check(exchange: Exchange, account: PlaneAccount, method: string, contentLength: number): void {
  startExchange(exchange, account, method);
  const { node } = account;
  const step = decide(node, exchange, contentLength);
  if (step === MISSED) {
    if (mustWait(exchange, account)) running.host.awaitTokens([exchange]);
  }
  if (step === DECIDED_SYNC) running.host.wantTokens(account);
  count(exchange);
}

/** The same for an exchange with limits that match. */
export function checkLimits(exchange: Exchange, account: PlaneAccount, method: string, contentLength: number): void {
  startExchange(exchange, account, method);
  const result = takeLimits(exchange, contentLength, valueAccount);
  if (result === INVALID) return;
  const taken = result === TAKEN;
  const outcomes = exchange.outcomes!;
  if (!taken) decideTogether(outcomes);
  else spent(account, exchange.balance);
  endLimits(exchange, taken, nowMs());
  const limits = exchange.matched!.count;
  for (let i = 1; i <= limits; i++) {
    const outcome = outcomes[i]!;
    countLimit(outcome);
    if (taken) spent(accountOf(outcome), outcome.balance);
  }
}

/**
 * Takes tokens for an exchange of this app that was admitted before, as `outcome`: no decision of its own, so it is not counted.
 * May wait for the service.
 */
export function takeMore(outcome: Exchange, account: PlaneAccount, tokens: number): void {
  startExchange(outcome, account, "");
  const step = decideCost(account.node, outcome, tokens);
  if (step === MISSED) {
    if (mustWait(outcome, account)) running.host.awaitTokens([outcome]);
  } else if (step === DECIDED_SYNC) running.host.wantTokens(account);
}

/** Some lease cannot pay, or a value is denied. */
function decideTogether(outcomes: Outcome[]): void {
  for (const { account } of outcomes) readShared(account as PlaneAccount);
  if (refuseTogether(outcomes, nowMs())) return;
  const waiting: Outcome[] = [];
  for (const outcome of outcomes) {
    // A dry run of a denied value, or of a cost that the limit can never pay, is decided.
    if (outcome.code === OK) {
      const account = accountOf(outcome);
      if (takeTogether([outcome]) === ALL_TAKEN) spent(account, outcome.balance);
      else if (mustWait(outcome, account)) waiting.push(outcome);
    }
  }
  if (waiting.length > 0) running.host.awaitTokens(waiting);
  if (allAllowed(outcomes)) return;
  // A refused request uses nothing.
  giveBackPaid(outcomes);
}

/** Refunds what these outcomes have paid. */
export function giveBackPaid(outcomes: readonly Outcome[]): void {
  for (const outcome of outcomes) {
    if (outcome.code === OK && outcome.cost > 0) {
      const account = currentAccount(outcome);
      refund(account, outcome.cost);
      refunded(account);
    }
  }
}

function accountOf({ account }: Outcome): PlaneAccount {
  return account as PlaneAccount;
}

/** A value may have been released while the exchange was open. */
function currentAccount(outcome: Outcome): PlaneAccount {
  const account = accountOf(outcome);
  if (!account.isValue) return account;
  const { limits } = account;
  const current = worker.byId[limits.id];
  return current !== undefined && !current.leaving ? current : valueAgain(account);
}

function spent(account: PlaneAccount, balance: number): void {
  if (!account.active) activate(account.node, account);
  if (isLow(account.node, account, balance)) running.host.wantTokens(account);
}

/** Reads what other workers know about the account. */
function readShared(account: PlaneAccount): void {
  catchUp(account.node);
  readRefusedUntil(account);
  keepValue(account);
}

/** The lease cannot pay: decides, or returns true if the outcome has to wait. */
function mustWait(outcome: Outcome, account: PlaneAccount): boolean {
  readShared(account);
  const step = decideMiss(account.node, outcome, nowMs());
  if (step === DECIDED_SYNC) running.host.wantTokens(account);
  return step === WAIT;
}

/**
 * Whether a body of unknown length is read before the decision. Not if the app is refused at the moment: its clients must
 * not fill the disk.
 */
export function readsFirst(account: PlaneAccount, method: string, route: PlaneRoute): boolean {
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
function corrected(account: PlaneAccount, difference: number): void {
  if (difference === 0) return;
  if (difference < 0) refunded(account);
  else spent(account, account.cell.get());
}

/** A refund ends a cached refusal, for all workers. */
function refunded(account: PlaneAccount): void {
  worker.dict.delete(account.refusedUntilKey);
  spent(account, account.cell.get());
}
