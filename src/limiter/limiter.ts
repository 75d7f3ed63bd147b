/** L3 on Node: decides from the local lease, asks the store once for many, and keeps deciding when the store is gone. */
import { INVALID_ARGUMENT, OK, QUOTA_EXHAUSTED, STORE_UNAVAILABLE, UNKNOWN_APP } from "../core/codes.js";
import { deviation, estimate, INVALID_COST, learnSizes, price, settlement } from "../core/cost.js";
import { darkAllowance, mayWaitForStore } from "../core/degradation.js";
import { DEFAULT_APP } from "../core/identity.js";
import {
  defaultLeasePolicy,
  isRefused,
  type LeasePolicy,
  MISS,
  settleTokens,
  takeAllowance,
  takeTokens,
  takeUncovered,
} from "../core/lease.js";
import { type AppLease, type LimitedApp, learnedSizes, newAppLease, plainCell, type Waiter } from "./app-lease.js";
import type { Decision, DecisionSource } from "./decision.js";
import { type Host, systemHost } from "./host.js";
import { createSyncer, type SyncTarget } from "./syncer.js";

export interface LimiterOptions {
  /** The name of this node; each start of it is an epoch of its own. */
  node: string;
  /** Whoever grants tokens: a quota on a store, or a service that has one. */
  target: SyncTarget;
  apps: LimitedApp[];
  /** Apps that are not configured share the app "default", or are refused. */
  unknownApps?: "default" | "reject";
  lease?: Partial<LeasePolicy>;
  /** No decision waits longer for the store. */
  timeoutMs?: number;
  /** Per app and second, while the store is gone and the app's policy is "open". */
  failOpenTokens?: number;
  host?: Host;
  observer?: LimiterObserver;
}

export interface LimiterObserver {
  refused?(decision: Decision): void;
  /** An exchange cost something else than estimated: by which part of the estimate. */
  deviated?(decision: Decision, actualCost: number, ratio: number): void;
  /** A message to the store has ended. */
  synced?(outcome: "ok" | "error" | "timeout", milliseconds: number, apps: number, error?: unknown): void;
  levelChanged?(level: number, before: number): void;
  emergencyChanged?(active: boolean): void;
}

export interface LimiterStats {
  /** Decisions by where they were made; refusals are counted in `refused` as well. */
  local: number;
  remote: number;
  remembered: number;
  dark: number;
  refused: number;
  /** Messages to the store. */
  syncs: number;
  failedSyncs: number;
  level: number;
  emergency: boolean;
  liveNodes: number;
}

export interface Limiter {
  /** At once where the lease or a remembered refusal decides, as it does for most requests. */
  check(app: string, method: string, contentLength: number): Decision | Promise<Decision>;
  /** An admitted exchange has ended: what really moved is charged, or given back, and learned from. */
  settle(decision: Decision, requestBytes: number, responseBytes: number): void;
  /** Told by whoever hears of it first: a message, a subscription, an operator. */
  setEmergency(active: boolean): void;
  pinLevel(level: number, durationMs: number): void;
  stats(): LimiterStats;
  /** Balance, and what the store last said, of each app that was used. */
  balances(): { app: string; balance: number; remaining: number; refusedCode: string }[];
  /** Reports, returns all tokens and leaves; waits at most `timeoutMs` for that. */
  close(): Promise<void>;
}

/** So many requests may wait for one app at a time; more are refused at once, as if the store did not answer. */
const MAX_WAITERS = 10_000;

export function createLimiter(options: LimiterOptions): Limiter {
  const host = options.host ?? systemHost;
  const policy: LeasePolicy = { ...defaultLeasePolicy, ...options.lease };
  const timeoutMs = options.timeoutMs ?? 1000;
  const failOpenTokens = options.failOpenTokens ?? 100;
  const observer = options.observer ?? {};
  const apps = new Map(options.apps.map((app) => [app.id, newAppLease(app, policy, host.now())]));
  const fallback = options.unknownApps === "reject" ? undefined : apps.get(DEFAULT_APP);
  const counts = { local: 0, remote: 0, remembered: 0, dark: 0, refused: 0 };
  const syncer = createSyncer({
    ...{ node: options.node, target: options.target, policy, timeoutMs, host, observer },
    apps: () => apps.values(),
    serve,
    giveUp,
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
    const made: Decision = {
      allowed: code === OK,
      code,
      app: app.policy.id,
      method,
      cost,
      remaining: Math.min(Math.max(app.cell.get(), 0) + app.remaining, app.limit),
      limit: app.limit,
      rate: app.policy.guaranteed,
      retryAfterMs,
      source,
    };
    if (code !== OK) {
      counts.refused++;
      observer.refused?.(made);
    }
    return made;
  }

  function check(id: string, method: string, contentLength: number): Decision | Promise<Decision> {
    const app = apps.get(id) ?? fallback;
    if (app === undefined) return unknown(id, method);
    const cost = estimate(app.policy.profile, method, contentLength, learnedSizes(app, method));
    if (cost === INVALID_COST) return decision(app, method, 0, "local", INVALID_ARGUMENT);
    const left = takeTokens(app.cell, cost);
    if (left !== MISS) {
      syncer.spent(app, left);
      return decision(app, method, cost, "local", OK);
    }
    return miss(app, method, cost);
  }

  function miss(app: AppLease, method: string, cost: number): Decision | Promise<Decision> {
    const now = host.now();
    if (isRefused(app.lease, cost, now)) {
      return decision(app, method, cost, "remembered", app.lease.refusedCode, Math.ceil(app.lease.refusedUntil - now));
    }
    if (!mayWaitForStore(syncer.level()) || app.waiters.length >= MAX_WAITERS) return dark(app, method, cost);
    return new Promise((answer) => {
      app.waiters.push({ method, cost, until: now + timeoutMs, rounds: 0, answer });
      app.waitingCost += cost;
      syncer.wanted(app);
    });
  }

  /** Without the store: what the app's policy allows, to be charged when the store is back; else 503. */
  function dark(app: AppLease, method: string, cost: number): Decision {
    const second = Math.floor(host.now() / 1000);
    if (app.darkSecond !== second) {
      app.darkSecond = second;
      app.dark = plainCell();
    }
    const { onStoreFailure, guaranteed } = app.policy;
    const allowance = darkAllowance(onStoreFailure, failOpenTokens, guaranteed, syncer.liveNodes());
    if (!takeAllowance(app.dark, allowance, cost)) return decision(app, method, cost, "dark", STORE_UNAVAILABLE, 1000);
    const left = takeUncovered(app.cell, cost);
    syncer.spent(app, left);
    return decision(app, method, cost, "dark", OK);
  }

  /** After an answer of the store: pays those who wait, in order; `code` is what the store said to the first of them. */
  function serve(app: AppLease, code: string, retryAfterMs: number, refusedCost: number): void {
    const waiting = app.waiters;
    app.waiters = [];
    app.waitingCost = 0;
    for (const waiter of waiting) {
      if (takeTokens(app.cell, waiter.cost) !== MISS) {
        waiter.answer(decision(app, waiter.method, waiter.cost, "remote", OK));
      } else if (code !== OK && waiter.cost >= refusedCost) {
        waiter.answer(decision(app, waiter.method, waiter.cost, "remote", code, retryAfterMs));
      } else if (++waiter.rounds >= 2) {
        // The store has given all it had, twice: whoever is still here is beyond it.
        const wait = Math.ceil((waiter.cost / Math.max(app.policy.guaranteed, 1e-6)) * 1000);
        waiter.answer(decision(app, waiter.method, waiter.cost, "remote", QUOTA_EXHAUSTED, wait));
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
  function unknown(_id: string, method: string): Decision {
    counts.local++;
    counts.refused++;
    const made: Decision = {
      ...{ allowed: false, code: UNKNOWN_APP, app: "", method, cost: 0 },
      ...{ remaining: 0, limit: 0, rate: 0, retryAfterMs: 0, source: "local" as const },
    };
    observer.refused?.(made);
    return made;
  }

  function settle(made: Decision, requestBytes: number, responseBytes: number): void {
    const app = apps.get(made.app);
    if (app === undefined || !made.allowed) return;
    learnSizes(learnedSizes(app, made.method), requestBytes, responseBytes);
    const actual = price(app.policy.profile, made.method, requestBytes + responseBytes);
    if (actual === INVALID_COST || actual === made.cost) return;
    settleTokens(app.lease, app.cell, settlement(made.cost, actual));
    syncer.spent(app, app.cell.get());
    observer.deviated?.(made, actual, deviation(made.cost, actual));
  }

  return {
    check,
    settle,
    setEmergency: syncer.setEmergency,
    pinLevel: syncer.pin,
    stats: () => ({ ...counts, ...syncer.stats() }),
    balances: () =>
      [...apps.values()].map(({ policy: { id }, cell, remaining, lease }) => ({
        ...{ app: id, balance: cell.get(), remaining, refusedCode: lease.refusedCode },
      })),
    close: syncer.close,
  };
}
