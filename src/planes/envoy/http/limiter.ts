/** Decides about requests on the worker's own leases, and settles exchanges. */

import { EMERGENCY_BLOCKED, OK } from "../../../core/codes.js";
import { mayWaitForStore, STORE_ERROR, STORE_OK, STORE_TIMEOUT } from "../../../core/degradation.js";
import { isRefused } from "../../../core/lease.js";
import { splitText, wholeNumber, wholeText } from "../../../core/platform.js";
import { isScarce, PENDING } from "../../../engine/account.js";
import {
  DECIDED_SYNC,
  decide,
  decideCached,
  decideRemotely,
  decideWithoutStore,
  MISSED,
  startDecision,
} from "../../../engine/decide.js";
import { activate, callEnded } from "../../../engine/node.js";
import { settleExchange } from "../../../engine/settle.js";
import { newWaiter } from "../../../engine/waiters.js";
import { count } from "../../lua/counts.js";
import { nowMs } from "../clock.js";
import type { Handle } from "../envoy-api.js";
import { callService } from "../service-calls.js";
import { type EnvoyAccount, worker } from "../state.js";
import type { Exchange } from "./exchanges.js";
import { contactSoon, isReportDue, isSyncing, maySync, sendSync } from "./syncer.js";

/** Decides about an exchange. May wait for the service. */
export function check(handle: Handle, exchange: Exchange, account: EnvoyAccount, method: string): void {
  const { arrivedAt, requestBytes } = exchange;
  const { node } = account;
  // Before tokens are taken: an emergency may have started, or the epoch may have been closed.
  if (isReportDue(node, arrivedAt) && maySync(node, arrivedAt)) sendSync(handle, account, undefined, arrivedAt);
  node.clock = arrivedAt;
  startDecision(exchange, account, method, exchange.route?.profile);
  const step = decide(node, exchange, requestBytes);
  if (step === MISSED) miss(handle, exchange, account);
  count(exchange);
  if (exchange.code !== OK) return;
  // Refused requests do not count: a flood of them must not cause reports.
  node.sinceContact = node.sinceContact + 1;
  if (step === DECIDED_SYNC) refill(handle, account);
}

/** The request has its tokens and fetches more for later ones. */
function refill(handle: Handle, account: EnvoyAccount): void {
  const now = nowMs();
  if (!maySync(account.node, now) || isScarce(account, now) || isRefused(account.lease, 1, now)) return;
  sendSync(handle, account, undefined, now);
}

/** The lease cannot pay: the request syncs, or asks the service to decide about it while another request syncs. */
function miss(handle: Handle, exchange: Exchange, account: EnvoyAccount): void {
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
    if (replied && mayWait) decideByService(handle, exchange, account);
    else decideWithoutStore(node, exchange, nowMs());
  } else if (mayWait && (isSyncing(node, now) || now >= node.retryAt)) {
    decideByService(handle, exchange, account);
  } else {
    decideWithoutStore(node, exchange, now);
  }
}

/**
 * The service decides about this request alone, from its own lease: `app cost` → `allowed code remaining limit
 * retry_after_ms`.
 */
function decideByService(handle: Handle, exchange: Exchange, account: EnvoyAccount): void {
  const { node } = account;
  const started = nowMs();
  const message = `${account.limits.id} ${wholeText(exchange.cost)}\n`;
  const reply = callService(handle, worker.options.clusters.envoy, "/v1/check", message);
  const now = nowMs();
  const words = reply.status === 200 ? splitText(splitText(reply.body, "\n")[0]!, " ") : [];
  if (words.length < 5) {
    // Too many calls of this Envoy at once say nothing about the service.
    if (!reply.overloaded) callEnded(node, reply.timedOut ? STORE_TIMEOUT : STORE_ERROR, started, now);
    decideWithoutStore(node, exchange, now);
    return;
  }
  callEnded(node, STORE_OK, started, now);
  const numberAt = (place: number) => Math.max(wholeNumber(words[place]!), 0);
  const answer = { code: words[1]!, remaining: numberAt(2), limit: numberAt(3), retryAfterMs: numberAt(4) };
  decideRemotely(exchange, answer, now);
  exchange.paidByService = answer.code === OK;
  // Otherwise this worker could miss the whole emergency, and the cached refusal would outlive it.
  if (answer.code === EMERGENCY_BLOCKED && !node.emergency) contactSoon(node);
  activate(node, account);
}

/** Charges or refunds the difference to the estimate. */
export function settle(exchange: Exchange): void {
  const { account, requestBytes, responseBytes } = exchange;
  const difference = settleExchange(account, exchange, requestBytes, responseBytes);
  if (difference !== 0) activate(account.node, account);
}
