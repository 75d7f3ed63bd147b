/** Decides about requests on the leases that all workers share, and settles exchanges. */
import type { PlaneRoute } from "../../../config/options/plane-options.js";
import { OK } from "../../../core/codes.js";
import { countsRequests, price } from "../../../core/cost.js";
import { isRefused } from "../../../core/lease.js";
import { endLimits, INVALID_REQUEST, startRequest, TAKEN, takeLimits } from "../../../engine/limited-request.js";
import { corrected, endTogether, payCost, payEstimate, payTogether, spent } from "../../../engine/payments.js";
import { actualCost, settleCost, settleExchange } from "../../../engine/settle.js";
import { count, countLimit } from "../counts.js";
import { nowMs, running } from "../host.js";
import { catchUp } from "./changes.js";
import type { Exchange } from "./exchanges.js";
import { readRefusedUntil } from "./records.js";
import type { PlaneAccount } from "./state.js";

/** Decides about an exchange whose app is its only limit. May wait for the service. */
export function check(exchange: Exchange, account: PlaneAccount, method: string, contentLength: number): void {
  const { host } = running;
  startRequest(exchange, account, method, exchange.route.profile);
  if (payEstimate(host, exchange, contentLength)) host.awaitTokens([exchange]);
  count(exchange);
}

/** The same for an exchange with limits that match. */
export function checkLimits(exchange: Exchange, account: PlaneAccount, method: string, contentLength: number): void {
  const { host } = running;
  startRequest(exchange, account, method, exchange.route.profile);
  const result = takeLimits(host, exchange, contentLength);
  if (result === INVALID_REQUEST) {
    count(exchange);
    return;
  }
  const isTaken = result === TAKEN;
  const { outcomes } = exchange;
  if (isTaken) spent(host, account, exchange.balance);
  else {
    const waiting = payTogether(host, outcomes);
    if (waiting.length > 0) {
      host.awaitTokens(waiting);
      endTogether(host, outcomes);
    }
  }
  endLimits(exchange, isTaken, nowMs());
  count(exchange);
  // The first outcome is that of the app. Not `for … of`: LuaJIT leaves compiled code for it.
  const limits = exchange.matched.count;
  for (let i = 1; i <= limits; i++) {
    const outcome = outcomes[i]!;
    const { rule } = outcome;
    if (rule !== undefined) countLimit(outcome, rule.name);
    if (isTaken) spent(host, outcome.account, outcome.balance);
  }
}

/**
 * Takes tokens for an exchange of this app that was admitted before, as `outcome`: no decision of its own, so it is not counted.
 * May wait for the service.
 */
export function takeMore(outcome: Exchange, account: PlaneAccount, tokens: number): void {
  const { host } = running;
  startRequest(outcome, account, "", outcome.route.profile);
  if (payCost(host, outcome, tokens)) host.awaitTokens([outcome]);
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
  corrected(running.host, account, settleExchange(account, exchange, requestBytes, responseBytes));
}

/** Corrects the limits that count by cost. */
function settleLimits(exchange: Exchange, requestBytes: number, responseBytes: number): void {
  const { host } = running;
  const actual = actualCost(exchange, requestBytes, responseBytes);
  for (const { account, rule, code, cost } of exchange.outcomes) {
    if (rule?.countsCost === true && code === OK) {
      const payer = host.currentAccount(account);
      corrected(host, payer, settleCost(payer, cost, actual));
    }
  }
}
