/** L3 on Node: decides from the local lease, asks the store once for many, and keeps deciding when the store is gone. */
import { COST_EXCEEDS_CAPACITY, INVALID_ARGUMENT, OK, STORE_UNAVAILABLE, UNKNOWN_APP } from "../core/codes.js";
import { deviation, estimate, INVALID_COST, learnSizes, price, settlement } from "../core/cost.js";
import { mayWaitForStore, withoutStoreAllowance } from "../core/degradation.js";
import {
  defaultLeaseOptions,
  isRefused,
  MISS,
  settleTokens,
  spentTokens,
  takeAllowance,
  takeTokens,
  takeUncovered,
} from "../core/lease.js";
import { MOST_SHORT_ANSWERS, waitForOwnRate } from "../core/sync.js";
import { systemClock } from "../shared/clock.js";
import { type AppLease, learnedSizes, plainCell, type Waiter } from "./app-lease.js";
import { createAppRegister } from "./app-register.js";
import type { Decision, DecisionSource } from "./decision.js";
import type { Limiter, LimiterOptions, LimiterSettings } from "./limiter-contract.js";
import { createPassingLimits } from "./passing-limits.js";
import { createSyncer } from "./syncer.js";

export type * from "./limiter-contract.js";

/** So many requests may wait for one app at a time; more are refused at once, as if the store did not answer. */
const MAX_WAITERS = 10_000;
/** In the place of a method, where the caller knew the price. */
const OWN_PRICE = "";

function complete({ lease, unknownApps, timeoutMs, failOpenTokens, ...given }: LimiterSettings) {
  return {
    ...{ target: given.target, apps: given.apps, unknownApps: unknownApps ?? ("default" as const) },
    lease: { ...defaultLeaseOptions, ...lease },
    timeoutMs: timeoutMs ?? 1000,
    failOpenTokens: failOpenTokens ?? 100,
  };
}

export function createLimiter(options: LimiterOptions): Limiter {
  const clock = options.clock ?? systemClock;
  const observer = options.observer ?? {};
  let settings = complete(options);
  const apps = createAppRegister(settings, clock.now);
  const counts = { local: 0, remote: 0, cached: 0, without_store: 0, refused: 0, dryRunRefused: 0 };
  const syncer = createSyncer({
    ...{ node: options.node, clock, observer, apps, serve, giveUp },
    ...{ target: settings.target, lease: settings.lease, timeoutMs: settings.timeoutMs },
    defer: options.defer ?? queueMicrotask,
  });

  function decision(
    app: AppLease,
    method: string,
    cost: number,
    source: DecisionSource,
    code: string,
    retryAfterMs = 0,
  ): Decision {
    counts[source]++;
    const { id, label = id, guaranteed, dryRun } = app.policy;
    const made: Decision = {
      // A dry run forgives a limit, not a request that makes no sense.
      allowed: code === OK || (dryRun && code !== INVALID_ARGUMENT),
      code,
      dryRun,
      app: label,
      method,
      cost,
      balance: app.cell.get(),
      remaining: Math.min(Math.max(app.cell.get(), 0) + app.remaining, app.limit),
      limit: app.limit,
      rate: guaranteed,
      retryAfterMs,
      source,
    };
    if (code !== OK) {
      if (made.allowed) counts.dryRunRefused++;
      else counts.refused++;
      observer.refused?.(made);
    }
    return made;
  }

  /** `until`, in clock milliseconds, is for a request that has been waiting already. */
  function check(
    id: string,
    method: string,
    contentLength: number,
    until = Number.POSITIVE_INFINITY,
  ): Decision | Promise<Decision> {
    const app = apps.payer(id);
    if (app === undefined) return unknown(method);
    const cost = estimate(app.policy.profile, method, contentLength, learnedSizes(app, method));
    if (cost === INVALID_COST) return decision(app, method, 0, "local", INVALID_ARGUMENT);
    return pay(app, id, method, contentLength, cost, false, until);
  }

  /** As `check`, at a price that the caller knows. */
  function take(app: AppLease, id: string, cost: number, until = Number.POSITIVE_INFINITY) {
    if (!(cost >= 0)) return decision(app, OWN_PRICE, 0, "local", INVALID_ARGUMENT);
    // It could never pass, and may be larger than the store can read.
    if (cost > app.policy.burst) return decision(app, OWN_PRICE, app.policy.burst, "local", COST_EXCEEDS_CAPACITY);
    if (cost === 0) return look(app);
    return pay(app, id, OWN_PRICE, 0, cost, true, until);
  }

  /** Takes nothing, and says what one token would have been told, as far as this node knows. */
  function look(app: AppLease): Decision {
    const now = clock.now();
    if (app.cell.get() > 0 || !isRefused(app.lease, 1, now)) return decision(app, OWN_PRICE, 0, "local", OK);
    const { refusedCode, refusedUntil } = app.lease;
    return decision(app, OWN_PRICE, 0, "cached", refusedCode, Math.ceil(refusedUntil - now));
  }

  function pay(
    app: AppLease,
    asked: string,
    method: string,
    contentLength: number,
    cost: number,
    fixedCost: boolean,
    until: number,
  ): Decision | Promise<Decision> {
    const left = takeTokens(app.cell, cost);
    if (left !== MISS) {
      syncer.spent(app, left);
      return decision(app, method, cost, "local", OK);
    }
    const now = clock.now();
    const patience = Math.min(until, now + settings.timeoutMs);
    const request = { asked, method, contentLength, cost, fixedCost, until: patience, inMessage: false, rounds: 0 };
    return miss(app, request, now);
  }

  function miss(app: AppLease, request: Omit<Waiter, "answer">, now: number): Decision | Promise<Decision> {
    const { method, cost } = request;
    if (isRefused(app.lease, cost, now)) {
      return decision(app, method, cost, "cached", app.lease.refusedCode, Math.ceil(app.lease.refusedUntil - now));
    }
    if (syncer.isClosed()) return decision(app, method, cost, "without_store", STORE_UNAVAILABLE, 1000);
    if (!mayWaitForStore(syncer.level()) || app.waiters.length >= MAX_WAITERS) {
      // It does not wait, but the next ones shall find tokens as soon as the store gives some.
      app.lease.activeAt = now;
      syncer.wanted(app);
      return dark(app, method, cost);
    }
    return new Promise((answer) => {
      app.waiters.push({ ...request, answer });
      app.waitingCost += cost;
      syncer.wanted(app);
    });
  }

  /** Without the store: what the app's policy allows, to be charged when the store is back; else 503. */
  function dark(app: AppLease, method: string, cost: number): Decision {
    const second = Math.floor(clock.now() / 1000);
    if (app.darkSecond !== second) {
      app.darkSecond = second;
      app.dark = plainCell();
    }
    const { onStoreFailure, guaranteed } = app.policy;
    const allowance = withoutStoreAllowance(onStoreFailure, settings.failOpenTokens, guaranteed, syncer.liveNodes());
    if (!takeAllowance(app.dark, allowance, cost))
      return decision(app, method, cost, "without_store", STORE_UNAVAILABLE, 1000);
    const left = takeUncovered(app.cell, cost);
    syncer.spent(app, left);
    return decision(app, method, cost, "without_store", OK);
  }

  /**
   * After an answer of the store: pays those who wait, in order; `code` is what the store said to the first of them, and
   * `short` whether it had too little for all it was asked for.
   */
  function serve(app: AppLease, code: string, retryAfterMs: number, refusedCost: number, short: boolean): void {
    const waiting = app.waiters;
    app.waiters = [];
    app.waitingCost = 0;
    for (const waiter of waiting) {
      if (takeTokens(app.cell, waiter.cost) !== MISS) {
        waiter.answer(decision(app, waiter.method, waiter.cost, "remote", OK));
      } else if (code !== OK && waiter.cost >= refusedCost) {
        waiter.answer(decision(app, waiter.method, waiter.cost, "remote", code, retryAfterMs));
      } else if (short && waiter.inMessage && ++waiter.rounds >= MOST_SHORT_ANSWERS) {
        const wait = waitForOwnRate(waiter.cost, app.policy.guaranteed);
        waiter.answer(decision(app, waiter.method, waiter.cost, "remote", app.shortCode, wait));
      } else {
        app.waiters.push(waiter);
        app.waitingCost += waiter.cost;
      }
    }
  }

  /** The store did not answer: those whose time is over, or all when nobody may wait any more, are decided without it. */
  function giveUp(app: AppLease, now: number, all: boolean): void {
    if (app.waiters.length === 0) return;
    const staying: Waiter[] = [];
    for (const waiter of app.waiters) {
      if (all || waiter.until <= now) waiter.answer(dark(app, waiter.method, waiter.cost));
      else staying.push(waiter);
    }
    app.waiters = staying;
    app.waitingCost = staying.reduce((sum, waiter) => sum + waiter.cost, 0);
  }

  /** Refused ids never become part of anything: the answer names none. */
  function unknown(method: string): Decision {
    counts.local++;
    counts.refused++;
    const made: Decision = {
      ...{ allowed: false, code: UNKNOWN_APP, dryRun: false, app: "", method, cost: 0 },
      ...{ balance: 0, remaining: 0, limit: 0, rate: 0, retryAfterMs: 0, source: "local" as const },
    };
    observer.refused?.(made);
    return made;
  }

  function takeNamed(id: string, cost: number, until?: number): Decision | Promise<Decision> {
    const app = apps.payer(id);
    return app === undefined ? unknown(OWN_PRICE) : take(app, id, cost, until);
  }

  function giveBack(app: AppLease | undefined, tokens: number): void {
    if (app === undefined || !(tokens > 0)) return;
    // No more than this node has spent: it cannot make tokens.
    const most = Math.min(tokens, Math.max(spentTokens(app.lease, app.cell), 0));
    settleTokens(app.lease, app.cell, 0 - most);
    syncer.spent(app, app.cell.get());
  }

  const limits = createPassingLimits({
    apps,
    syncer,
    clock,
    take: (limit, cost) => take(limit, limit.policy.id, cost),
    giveBack,
  });

  function settle(made: Decision, requestBytes: number, responseBytes: number): void {
    const app = made.allowed ? apps.owner(made.app) : undefined;
    if (app === undefined) return;
    learnSizes(learnedSizes(app, made.method), requestBytes, responseBytes);
    // Passed on a dry run: nothing was taken, so there is nothing to charge or to give back.
    if (made.code !== OK) return;
    const actual = price(app.policy.profile, made.method, requestBytes + responseBytes);
    if (actual === INVALID_COST || actual === made.cost) return;
    settleTokens(app.lease, app.cell, settlement(made.cost, actual));
    syncer.spent(app, app.cell.get());
    observer.deviated?.(made, actual, deviation(made.cost, actual));
  }

  function reconfigure(next: LimiterSettings): void {
    if (syncer.isClosed()) return;
    settings = complete(next);
    const removed = apps.replace(settings);
    syncer.reconfigure({ target: settings.target, lease: settings.lease, timeoutMs: settings.timeoutMs }, removed);
    for (const app of removed) {
      const waiting = app.waiters;
      app.waiters = [];
      app.waitingCost = 0;
      for (const { asked, method, contentLength, cost, fixedCost, until, answer } of waiting) {
        const made = fixedCost ? takeNamed(asked, cost, until) : check(asked, method, contentLength, until);
        if (made instanceof Promise) made.then(answer);
        else answer(made);
      }
    }
  }

  return {
    check: (id, method, contentLength) => check(id, method, contentLength),
    take: (id, cost) => takeNamed(id, cost),
    giveBack: (id, tokens) => giveBack(apps.payer(id), tokens),
    limits,
    settle,
    setEmergency: syncer.setEmergency,
    pinLevel: syncer.pin,
    reconfigure,
    stats: () => {
      const { without_store, ...others } = counts;
      return { ...others, withoutStore: without_store, ...syncer.stats() };
    },
    balances: () =>
      [...apps.configured()].map(({ policy: { id }, cell, remaining, lease }) => ({
        ...{ app: id, balance: cell.get(), remaining, refusedCode: lease.refusedCode },
      })),
    close: syncer.close,
  };
}
