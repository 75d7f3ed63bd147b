/** Decides about requests on the worker's own leases, and settles exchanges. */

import { EMERGENCY_BLOCKED, OK } from "../../../core/codes.js";
import { mayWaitForStore, STORE_ERROR, STORE_OK, STORE_TIMEOUT } from "../../../core/degradation.js";
import { isRefused } from "../../../core/lease.js";
import { splitText, wholeNumber, wholeText } from "../../../core/platform.js";
import { isScarce, type Outcome, PENDING } from "../../../engine/account.js";
import {
  DECIDED_SYNC,
  decide,
  decideCached,
  decideRemotely,
  decideWithoutStore,
  isLow,
  lastsUntilNextSync,
  MISSED,
} from "../../../engine/decide.js";
import { activate, callEnded, urge } from "../../../engine/node.js";
import { actualCost, refund, settleExchange, settleLimit } from "../../../engine/settle.js";
import { ALL_TAKEN, allAllowed, refuseTogether, takeTogether } from "../../../engine/together.js";
import { newWaiter } from "../../../engine/waiters.js";
import { count, countLimit } from "../../lua/counts.js";
import { startExchange } from "../../lua/exchange.js";
import { luaTable } from "../../lua/library.js";
import { endLimits, INVALID, TAKEN, takeLimits } from "../../lua/limit-outcomes.js";
import { nowMs } from "../clock.js";
import type { Handle } from "../envoy-api.js";
import { callService } from "../service-calls.js";
import { type EnvoyAccount, type EnvoyNode, worker } from "../state.js";
import type { Exchange } from "./exchanges.js";
import { contactSoon, isReportDue, isSyncing, maySync, sendSync } from "./syncer.js";
import { currentAccount, sweepIfDue, valueAccount } from "./values.js";

/** `limited`: limits apply besides that of the app. */
export interface CheckedRequest {
  method: string;
  limited: boolean;
}

/** Decides about an exchange. May wait for the service. */
export function check(handle: Handle, exchange: Exchange, account: EnvoyAccount, request: CheckedRequest): void {
  const { arrivedAt, requestBytes } = exchange;
  const { method, limited } = request;
  const { node } = account;
  reportIfDue(handle, account, arrivedAt);
  node.clock = arrivedAt;
  startExchange(exchange, account, method);
  if (limited) {
    checkLimits(handle, exchange);
    return;
  }
  const step = decide(node, exchange, requestBytes);
  if (step === MISSED) miss(handle, exchange, account);
  count(exchange);
  if (exchange.code !== OK) return;
  // Refused requests do not count: a flood of them must not cause reports.
  node.sinceContact = node.sinceContact + 1;
  if (step === DECIDED_SYNC) refill(handle, account);
}

/** Before tokens are taken: an emergency may have started, or the epoch may have been closed. */
function reportIfDue(handle: Handle, account: EnvoyAccount, now: number): void {
  if (isReportDue(account.node, now) && maySync(account.node, now)) sendSync(handle, account, undefined, now);
}

/** The request has limits besides that of its app. */
function checkLimits(handle: Handle, exchange: Exchange): void {
  const { account, arrivedAt, requestBytes } = exchange;
  const { matches, count: limits } = exchange.matched!;
  sweepIfDue(arrivedAt);
  if (worker.nodes.length > 1) {
    for (let i = 0; i < limits; i++) {
      const { rule, id } = matches[i]!;
      const limit = valueAccount(rule, id);
      limit.node.clock = arrivedAt;
      reportIfDue(handle, limit, arrivedAt);
    }
  }
  const result = takeLimits(exchange, requestBytes, valueAccount);
  if (result === INVALID) return;
  const taken = result === TAKEN;
  const outcomes = exchange.outcomes!;
  if (!taken) decideTogether(handle, outcomes);
  const allowed = taken || allAllowed(outcomes);
  endLimits(exchange, taken, nowMs());
  for (let i = 1; i <= limits; i++) countLimit(outcomes[i]!);
  if (allowed) for (const outcome of outcomes) used(handle, outcome, account.node);
}

/** The request is admitted: the next report includes what it spent, and tokens are fetched for later ones. */
function used(handle: Handle, outcome: Outcome, appNode: EnvoyNode): void {
  const account = accountOf(outcome);
  const { node } = account;
  activate(node, account);
  if (node !== appNode || !account.isValue) node.sinceContact = node.sinceContact + 1;
  if (outcome.source === "local" && outcome.code === OK && isLow(node, account, outcome.balance))
    refill(handle, account);
}

function accountOf({ account }: Outcome): EnvoyAccount {
  return account as EnvoyAccount;
}

/** Some lease cannot pay, or a value is denied. */
function decideTogether(handle: Handle, outcomes: Outcome[]): void {
  const now = nowMs();
  if (refuseTogether(outcomes, now)) return;
  const missing: Outcome[] = [];
  let mayAsk = true;
  for (const outcome of outcomes) {
    // A dry run of a denied value, or of a cost that the limit can never pay, is decided.
    if (outcome.code === OK && takeTogether([outcome]) !== ALL_TAKEN) {
      missing.push(outcome);
      mayAsk = mayAsk && mayAskService(accountOf(outcome).node, now);
    }
  }
  if (missing.length === 0) return;
  if (mayAsk) askService(handle, missing);
  else for (const outcome of missing) miss(handle, outcome, accountOf(outcome));
  if (allAllowed(outcomes)) return;
  // A refused request uses nothing. What the service took for it, the service has given back.
  for (const outcome of outcomes) {
    const byService = mayAsk && outcome.source === "remote";
    if (outcome.code === OK && outcome.cost > 0 && !byService) {
      const account = currentAccount(accountOf(outcome));
      refund(account, outcome.cost);
      activate(account.node, account);
    }
  }
}

function mayAskService(node: EnvoyNode, now: number): boolean {
  return mayWaitForStore(node.level) && (isSyncing(node, now) || now >= node.retryAt);
}

/** The request has its tokens and fetches more for later ones. If a message is in flight, or tokens last, the next one does. */
function refill(handle: Handle, account: EnvoyAccount): void {
  account.lookAt = 0;
  if (lastsUntilNextSync(account.node, account)) {
    urge(account.node, account);
    return;
  }
  const now = nowMs();
  if (!maySync(account.node, now) || isScarce(account, now) || isRefused(account.lease, 1, now)) return;
  sendSync(handle, account, undefined, now);
}

/** The lease cannot pay: the request syncs, or asks the service to decide about it while another request syncs. */
function miss(handle: Handle, exchange: Outcome, account: EnvoyAccount): void {
  const { node } = account;
  const now = nowMs();
  if (decideCached(exchange, "cached", now)) return;
  // While the store is slow or unavailable requests do not wait, except one that finds out whether it has recovered.
  const mayWait = mayWaitForStore(node.level);
  // A slow app holds no tokens here, because this worker could not return them without a request: the service pays.
  const leases = account.lease.target >= 1;
  if (maySync(node, now) && !(mayWait && (!leases || isScarce(account, now)))) {
    const waiter = newWaiter(exchange, now + worker.options.timeoutMs);
    const replied = sendSync(handle, account, waiter, now);
    if (exchange.code !== PENDING) return;
    if (replied && mayWait) askService(handle, [exchange]);
    else decideWithoutStore(node, exchange, nowMs());
  } else if (mayAskService(node, now)) {
    askService(handle, [exchange]);
  } else {
    decideWithoutStore(node, exchange, now);
  }
}

/** Words of the reply about one account. */
const REPLY_WORDS = 5;

/**
 * The service decides about this request alone, from its own leases, and takes the tokens of all these accounts or none:
 * `app cost`, for each account → `allowed code remaining limit retry_after_ms`, for each account.
 */
function askService(handle: Handle, outcomes: Outcome[]): void {
  const started = nowMs();
  const asked: string[] = [];
  for (const { account, cost } of outcomes) asked.push(`${account.limits.id} ${wholeText(cost)}`);
  const message = `${luaTable.concat(asked, " ")}\n`;
  const reply = callService(handle, worker.options.clusters.envoy, "/v1/check", message);
  const now = nowMs();
  const words = reply.status === 200 ? splitText(splitText(reply.body, "\n")[0]!, " ") : [];
  const replied = words.length >= outcomes.length * REPLY_WORDS;
  for (let i = 0; i < outcomes.length; i++) {
    const outcome = outcomes[i]!;
    const account = accountOf(outcome);
    const { node } = account;
    // Too many calls of this Envoy at once say nothing about the service.
    if (replied) callEnded(node, STORE_OK, started, now);
    else if (!reply.overloaded) callEnded(node, reply.timedOut ? STORE_TIMEOUT : STORE_ERROR, started, now);
    if (replied) decidedByService(outcome, words, i * REPLY_WORDS);
    else decideWithoutStore(node, outcome, now);
  }
}

function decidedByService(outcome: Outcome, words: string[], at: number): void {
  const account = accountOf(outcome);
  const { node } = account;
  const numberAt = (place: number) => Math.max(wholeNumber(words[at + place]!), 0);
  const answer = { code: words[at + 1]!, remaining: numberAt(2), limit: numberAt(3), retryAfterMs: numberAt(4) };
  decideRemotely(outcome, answer, nowMs());
  // Of the exchange, which is the outcome of its app.
  (outcome as Exchange).paidByService = answer.code === OK;
  // The next message asks for a lease, if one is worthwhile.
  account.lookAt = 0;
  // Otherwise this worker could miss the whole emergency, and the cached refusal would outlive it.
  if (answer.code === EMERGENCY_BLOCKED && !node.emergency) contactSoon(node);
  activate(node, account);
}

/** Charges or refunds the difference to the estimate. */
export function settle(exchange: Exchange): void {
  const { account, requestBytes, responseBytes } = exchange;
  if (exchange.limited) {
    settleLimits(exchange);
    exchange.code = exchange.appCode;
  }
  const difference = settleExchange(account, exchange, requestBytes, responseBytes);
  if (difference !== 0) activate(account.node, account);
}

/** Corrects the limits that count by cost. */
export function settleLimits(exchange: Exchange): void {
  const { requestBytes, responseBytes } = exchange;
  if (!exchange.limited || !exchange.settlesLimits) return;
  const outcomes = exchange.outcomes!;
  const actual = actualCost(exchange, requestBytes, responseBytes);
  for (let i = 1; i < outcomes.length; i++) {
    const outcome = outcomes[i]!;
    if (outcome.rule!.countsCost && outcome.code === OK) {
      const account = currentAccount(accountOf(outcome));
      settleLimit(account, outcome.cost, actual);
      activate(account.node, account);
    }
  }
}
