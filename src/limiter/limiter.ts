/** The Node host of the engine: decides about requests, with a promise for those that wait for a sync. */
import { OK, UNKNOWN_APP } from "../core/codes.js";
import { deviation } from "../core/cost.js";
import { defaultLeaseOptions, isRefused } from "../core/lease.js";
import { unidentified } from "../core/refusals.js";
import { newOutcome, type Outcome, remainingTokens } from "../engine/account.js";
import {
  DECIDED_SYNC,
  decide,
  decideCached,
  decideCost,
  decideLook,
  decideMiss,
  MISSED,
  refuseWithoutStore,
  WAIT,
} from "../engine/decide.js";
import { leaveNode, refit } from "../engine/limits.js";
import { refund, settleExchange } from "../engine/settle.js";
import { addWaiter, newWaiter, takeWaiters } from "../engine/waiters.js";
import { systemClock } from "../shared/clock.js";
import { createAccounts, type LimiterAccount, type LimiterWaiter } from "./accounts.js";
import type { Decision } from "./decision.js";
import type { Limiter, LimiterOptions, LimiterSettings } from "./limiter-contract.js";
import { createSyncer } from "./syncer.js";

export type * from "./limiter-contract.js";

/** A request as far as it matters if it has to wait. */
type WaitingRequest = Pick<LimiterWaiter, "requestedApp" | "contentLength" | "fixedCost"> & { startedMs: StartTime };

/** Undefined: the decision is immediate, and nobody observes how long it takes. */
type StartTime = number | undefined;

function complete({ target, apps, unknownApps, lease, timeoutMs, failOpenTokens }: LimiterSettings) {
  const leaseOptions = { ...defaultLeaseOptions, ...lease };
  return {
    target,
    node: { lease: leaseOptions, timeoutMs: timeoutMs ?? 1000, failOpenTokens: failOpenTokens ?? 100, timers: true },
    accounts: { apps, unknownApps: unknownApps ?? ("default" as const), lease: leaseOptions },
  };
}

export function createLimiter(options: LimiterOptions): Limiter {
  const clock = options.clock ?? systemClock;
  const observer = options.observer ?? {};
  const settings = complete(options);
  const accounts = createAccounts(settings.accounts, clock.now);
  const counts = { local: 0, remote: 0, cached: 0, without_store: 0, refused: 0, dryRunRefused: 0 };
  const syncer = createSyncer({
    name: options.node,
    target: settings.target,
    node: settings.node,
    clock,
    observer,
    accounts,
    defer: options.defer ?? queueMicrotask,
  });
  const { node } = syncer;
  /** Reused by all decisions that do not wait. */
  const current = {} as Outcome;

  const startTime: () => StartTime = observer.decided === undefined ? () => undefined : clock.now;

  function decisionOf(outcome: Outcome, startedMs: StartTime, waited = false): Decision {
    const { account, method, cost, code, allowed, source, balance, retryAfterMs } = outcome;
    const { id, label = id, guaranteed, dryRun } = account.limits;
    const decision: Decision = {
      allowed,
      code,
      dryRun,
      app: label,
      method,
      cost,
      balance,
      remaining: remainingTokens(account, balance),
      limit: account.sync.limit,
      rate: guaranteed,
      retryAfterMs,
      source,
    };
    return recorded(decision, startedMs, waited);
  }

  /** Every decision is counted and observed here. */
  function recorded(decision: Decision, startedMs: StartTime, waited: boolean): Decision {
    counts[decision.source]++;
    if (decision.code !== OK) {
      if (decision.allowed) counts.dryRunRefused++;
      else counts.refused++;
    }
    observer.decided?.(decision, startedMs === undefined ? 0 : clock.now() - startedMs, waited);
    return decision;
  }

  function check(
    id: string,
    method: string,
    contentLength: number,
    startedMs = startTime(),
  ): Decision | Promise<Decision> {
    const account = accounts.payer(id);
    if (account === undefined) return refuse(UNKNOWN_APP, method, startedMs);
    const step = decide(node, current, account, method, contentLength);
    if (step === MISSED) return miss(account, { requestedApp: id, contentLength, fixedCost: false, startedMs });
    if (step === DECIDED_SYNC) syncer.wake(account);
    return decisionOf(current, startedMs);
  }

  /** As `check`, for a cost that the caller states. */
  function take(
    account: LimiterAccount,
    requestedApp: string,
    cost: number,
    startedMs = startTime(),
  ): Decision | Promise<Decision> {
    if (cost === 0) {
      decideLook(current, account, clock.now());
      return decisionOf(current, startedMs);
    }
    const step = decideCost(node, current, account, cost);
    if (step === MISSED) return miss(account, { requestedApp, contentLength: 0, fixedCost: true, startedMs });
    if (step === DECIDED_SYNC) syncer.wake(account);
    return decisionOf(current, startedMs);
  }

  function takeFor(id: string, cost: number, startedMs?: number): Decision | Promise<Decision> {
    const account = accounts.payer(id);
    return account === undefined ? refuse(UNKNOWN_APP, "", startedMs) : take(account, id, cost, startedMs);
  }

  function miss(account: LimiterAccount, request: WaitingRequest): Decision | Promise<Decision> {
    const now = clock.now();
    if (syncer.isClosed()) {
      if (!decideCached(current, "cached", now)) refuseWithoutStore(current);
      return decisionOf(current, request.startedMs);
    }
    syncer.level();
    const step = decideMiss(node, current, now);
    if (step === WAIT) return wait(account, request, now);
    if (step === DECIDED_SYNC) syncer.wake(account);
    return decisionOf(current, request.startedMs);
  }

  function wait(account: LimiterAccount, request: WaitingRequest, now: number): Promise<Decision> {
    const { startedMs = now } = request;
    const outcome = newOutcome(account, current.method, current.cost);
    return new Promise((resolve) => {
      const waiter: LimiterWaiter = {
        ...newWaiter(outcome, startedMs + node.options.timeoutMs),
        ...request,
        startedMs,
        wake: () => resolve(decisionOf(outcome, startedMs, true)),
        resolve,
      };
      addWaiter(account, waiter);
      syncer.wake(account);
    });
  }

  /** The decision does not name the app of the request, so that clients cannot create labels. */
  function refuse(code: string, method: string, startedMs: StartTime): Decision {
    return recorded({ ...unidentified(code), method, balance: 0, rate: 0, source: "local" }, startedMs, false);
  }

  function giveBack(account: LimiterAccount | undefined, tokens: number): void {
    if (account === undefined || !(tokens > 0)) return;
    refund(account, tokens);
    syncer.spent(account);
  }

  /** A waiter of an app that was removed is decided under the new limits. */
  function decideAgain({ outcome, requestedApp, contentLength, fixedCost, startedMs, resolve }: LimiterWaiter): void {
    if (fixedCost) resolve(takeFor(requestedApp, outcome.cost, startedMs));
    else resolve(check(requestedApp, outcome.method, contentLength, startedMs));
  }

  return {
    check: (id, method, contentLength) => check(id, method, contentLength),
    take: (id, cost) => takeFor(id, cost),
    refuse: (code, method) => refuse(code, method, undefined),
    giveBack: (id, tokens) => giveBack(accounts.payer(id), tokens),

    limits: {
      enter(limits) {
        const account = accounts.enterLimit(limits);
        refit(node, account, clock.now());
        return account;
      },
      take: (account, cost) => take(account, account.limits.id, cost),
      giveBack,
      isRefused: ({ lease, cell }, cost) => cell.get() < cost && isRefused(lease, cost, clock.now()),
      letGo(account) {
        if (account.waiters.length > 0) return false;
        accounts.leaveLimit(account);
        leaveNode(node, account);
        return true;
      },
      count: accounts.limitCount,
    },

    settle(decision, requestBytes, responseBytes) {
      observer.settled?.(decision);
      const account = decision.allowed ? accounts.owner(decision.app) : undefined;
      if (account === undefined) return;
      const difference = settleExchange(account, decision, requestBytes, responseBytes);
      if (difference === 0) return;
      syncer.spent(account);
      const actual = decision.cost + difference;
      observer.deviated?.(decision, actual, deviation(decision.cost, actual));
    },

    setEmergency: syncer.setEmergency,
    pinLevel: syncer.pinLevel,

    reconfigure(next) {
      if (syncer.isClosed()) return;
      const changed = complete(next);
      const removed = accounts.replace(changed.accounts);
      syncer.reconfigure(changed, removed);
      for (const account of removed) for (const waiter of takeWaiters(account)) decideAgain(waiter);
    },

    stats() {
      const { without_store: withoutStore, ...others } = counts;
      const { syncs, failures, emergency, liveNodes } = node;
      const level = syncer.level();
      return { ...others, withoutStore, syncs, failedSyncs: failures, level, emergency, liveNodes };
    },

    balances: () =>
      Array.from(accounts.configured(), ({ limits, cell, sync, lease }) => ({
        app: limits.id,
        balance: cell.get(),
        remaining: sync.remaining,
        refusedCode: lease.refusedCode,
      })),

    close: syncer.close,
  };
}
