/** L3 on Envoy: decides from the worker's own lease; asks where it must; goes on when nobody answers. */
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
import {
  applyReply,
  isRefused,
  MISS,
  settleTokens,
  takeAllowance,
  takeTokens,
  takeUncovered,
} from "../../../core/lease.js";
import { isScarce } from "../../../core/sync.js";
import { count } from "../../lua/tally.js";
import { nowMs } from "../clock.js";
import type { Handle } from "../envoy-api.js";
import { type EnvoyAccount, worker } from "../state.js";
import { askService } from "./check-client.js";
import type { Exchange } from "./exchanges.js";
import { isReportWorthwhile, isTalking, mayTalk, sync, touch } from "./syncer.js";

/** Sizes learned for a method. Methods that HTTP does not define share one memory, so that they cannot grow it. */
function learnedSizes(app: EnvoyAccount, method: string): LearnedSizes {
  const known = app.learned[method];
  if (known !== undefined) return known;
  const base = app.limits.profile.base as { [method: string]: number | undefined };
  const name = base[method] === undefined ? "other" : method;
  const learned = app.learned[name] ?? newLearnedSizes();
  app.learned[name] = learned;
  return learned;
}

/** Decides about an exchange: its code, cost, balance and where that was found. May wait for the service. */
export function check(
  handle: Handle,
  exchange: Exchange,
  app: EnvoyAccount,
  method: string,
  contentLength: number,
  now: number,
): void {
  const cost = estimate(app.limits.profile, method, contentLength, learnedSizes(app, method));
  exchange.app = app;
  exchange.method = method;
  exchange.retryAfterMs = 0;
  if (cost === INVALID_COST) {
    exchange.cost = 0;
    conclude(exchange, "local", INVALID_ARGUMENT, app.cell.balance);
    return;
  }
  exchange.cost = cost;
  // Before anything is taken: an emergency may have begun, or the lease be nobody's any more.
  if ((now >= worker.lookAt || now < worker.lastContact) && isReportWorthwhile(now) && mayTalk(now)) {
    sync(handle, app, 0, now);
  }
  const left = takeTokens(app.cell, cost);
  if (left === MISS) {
    miss(handle, exchange, app, cost);
    return;
  }
  // Those that are refused leave nothing to report: a flood of them must not cost calls.
  worker.sinceContact = worker.sinceContact + 1;
  if (!app.touched) touch(app);
  conclude(exchange, "local", OK, left);
  if (left < app.lowWater) refill(handle, app);
}

function conclude(exchange: Exchange, source: Exchange["source"], code: string, balance: number): void {
  exchange.code = code;
  exchange.balance = balance;
  exchange.source = source;
  // A dry run forgives a limit, not a request that makes no sense.
  exchange.allowed = code === OK || (exchange.app.limits.dryRun && code !== INVALID_ARGUMENT);
  count(exchange);
}

/** The request at hand has its tokens, and fetches some for those that come after it. */
function refill(handle: Handle, app: EnvoyAccount): void {
  const now = nowMs();
  if (!mayTalk(now) || isScarce(app.sync, now) || isRefused(app.lease, 1, now)) return;
  sync(handle, app, 0, now);
}

function miss(handle: Handle, exchange: Exchange, app: EnvoyAccount, cost: number): void {
  const now = nowMs();
  if (isKnownRefusal(exchange, app, cost, "cached", now)) return;
  if (!mayWaitForStore(worker.level)) {
    // Somebody has to find out whether it is better.
    if (mayTalk(now) && sync(handle, app, cost, now) && isPaid(exchange, app, cost)) return;
    dark(exchange, app, cost);
    return;
  }
  if (mayTalk(now) && !isScarce(app.sync, now)) {
    if (!sync(handle, app, cost, now)) {
      dark(exchange, app, cost);
      return;
    }
    if (isPaid(exchange, app, cost)) return;
    if (isKnownRefusal(exchange, app, cost, "remote", nowMs())) return;
  } else if (!isTalking(now) && now < worker.retryAt) {
    dark(exchange, app, cost);
    return;
  }
  decideElsewhere(handle, exchange, app, cost);
}

function isPaid(exchange: Exchange, app: EnvoyAccount, cost: number): boolean {
  const left = takeTokens(app.cell, cost);
  if (left === MISS) return false;
  touch(app);
  conclude(exchange, "remote", OK, left);
  return true;
}

/** A refusal that is known costs no call. */
function isKnownRefusal(
  exchange: Exchange,
  app: EnvoyAccount,
  cost: number,
  source: Exchange["source"],
  now: number,
): boolean {
  const { lease } = app;
  if (!isRefused(lease, cost, now)) return false;
  exchange.retryAfterMs = Math.ceil(lease.refusedUntil - now);
  conclude(exchange, source, lease.refusedCode, app.cell.balance);
  return true;
}

/** The service decides about this one request, from a lease of its own. */
function decideElsewhere(handle: Handle, exchange: Exchange, app: EnvoyAccount, cost: number): void {
  const answer = askService(handle, app.limits.id, cost);
  if (answer === undefined) {
    dark(exchange, app, cost);
    return;
  }
  const { code, remaining, limit, retryAfterMs } = answer;
  const now = nowMs();
  app.sync.remaining = Math.max(remaining - Math.max(app.cell.balance, 0), 0);
  app.sync.limit = limit;
  if (code !== OK && code !== STORE_UNAVAILABLE) {
    applyReply(app.lease, app.cell, app.lease.granted, code, retryAfterMs, cost, now);
  }
  exchange.retryAfterMs = code === OK ? 0 : retryAfterMs;
  conclude(exchange, "remote", code, app.cell.balance);
}

/** Without the store: what the app's limits allows, to be charged when the store is back; else 503. */
function dark(exchange: Exchange, app: EnvoyAccount, cost: number): void {
  const { onStoreFailure, guaranteed } = app.limits;
  const { settings } = worker;
  const open = Math.floor(settings.failOpenTokens / Math.max(settings.workers, 1));
  const allowance = withoutStoreAllowance(onStoreFailure, open, guaranteed, worker.liveNodes);
  const second = Math.floor(nowMs() / 1000);
  if (second !== app.darkSecond) {
    app.darkSecond = second;
    app.dark.balance = 0;
  }
  if (!takeAllowance(app.dark, allowance, cost)) {
    exchange.retryAfterMs = 1000;
    conclude(exchange, "without_store", STORE_UNAVAILABLE, app.cell.balance);
    return;
  }
  const left = takeUncovered(app.cell, cost);
  touch(app);
  conclude(exchange, "without_store", OK, left);
}

/** What really moved is charged, or given back, and learned from. */
export function settle(exchange: Exchange): void {
  const { app, method, cost, code, requestBytes, responseBytes } = exchange;
  learnSizes(learnedSizes(app, method), requestBytes, responseBytes);
  // Passed on a dry run: nothing was taken, so there is nothing to charge or to give back.
  if (code !== OK) return;
  const actual = price(app.limits.profile, method, requestBytes + responseBytes);
  if (actual === INVALID_COST || actual === cost) return;
  settleTokens(app.lease, app.cell, settlement(cost, actual));
  touch(app);
}
