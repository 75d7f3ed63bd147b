/** The Node host of the engine: decides about requests, with a promise for those that wait for a sync. */
import { OK, UNKNOWN_APP } from "../core/codes.js";
import { deviation } from "../core/cost.js";
import { DEFAULT_APP } from "../core/identity.js";
import { defaultLeaseOptions, isRefused } from "../core/lease.js";
import { unidentified } from "../core/refusals.js";
import { newOutcome, type Outcome } from "../engine/account.js";
import {
  DECIDED_SYNC,
  decide,
  decideCached,
  decideCost,
  decideLook,
  decideMiss,
  MISSED,
  refuseWithoutStore,
  remainingTokens,
  startDecision,
  WAIT,
} from "../engine/decide.js";
import { leaveNode, refit } from "../engine/limits.js";
import type { NodeOptions } from "../engine/node.js";
import { refund, settleExchange } from "../engine/settle.js";
import { addWaiter, newWaiter, takeWaiters } from "../engine/waiters.js";
import { systemClock } from "../shared/clock.js";
import { createAccounts, type LimiterAccount, type LimiterWaiter } from "./accounts.js";
import type { Decision } from "./decision.js";
import type { Limiter, LimiterOptions, LimitOptions } from "./limiter-contract.js";
import { createSyncer } from "./syncer.js";

export type * from "./limiter-contract.js";

type Deciding = Decision | Promise<Decision>;

/** Undefined: the decision is immediate, and nobody observes how long it takes. */
type StartTime = number | undefined;

/** Makes the decision about a waiting request again, because the account that should pay was removed. */
type Again = (startedMs: number) => Deciding;

function nodeOptions({ lease, timeoutMs = 1000, failOpenTokens = 100 }: LimitOptions): NodeOptions {
  return { lease: { ...defaultLeaseOptions, ...lease }, timeoutMs, failOpenTokens, timers: true };
}

export function createLimiter(options: LimiterOptions): Limiter {
  const { clock = systemClock, observer = {}, defer = queueMicrotask } = options;
  const firstOptions = nodeOptions(options);
  const accounts = createAccounts(options.apps, firstOptions.lease, clock.now);
  const { apps } = accounts;
  const counts = { local: 0, remote: 0, cached: 0, without_store: 0, refused: 0, dryRunRefused: 0 };
  const syncer = createSyncer({ ...options, clock, observer, defer, accounts, nodeOptions: firstOptions });
  const { node } = syncer;
  let fallback = fallbackOf(options);
  /** Reused by all decisions that do not wait. */
  const current = {} as Outcome;
  const startTime: () => StartTime = observer.decided === undefined ? () => undefined : clock.now;

  /** The account that pays for unknown apps. */
  function fallbackOf({ unknownApps }: LimitOptions): LimiterAccount | undefined {
    return unknownApps === "reject" ? undefined : apps.get(DEFAULT_APP);
  }

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

  function check(id: string, method: string, contentLength: number, startedMs = startTime()): Deciding {
    const account = apps.get(id) ?? fallback;
    if (account === undefined) return refuse(UNKNOWN_APP, method, startedMs);
    startDecision(current, account, method);
    const step = decide(node, current, contentLength);
    if (step === MISSED) return miss(account, startedMs, (since) => check(id, method, contentLength, since));
    if (step === DECIDED_SYNC) syncer.wake(account);
    return decisionOf(current, startedMs);
  }

  /** As `check`, for a cost that the caller states. */
  function take(id: string, cost: number, startedMs = startTime()): Deciding {
    const account = apps.get(id) ?? fallback;
    if (account === undefined) return refuse(UNKNOWN_APP, "", startedMs);
    return takeOf(account, id, cost, startedMs);
  }

  function takeOf(account: LimiterAccount, id: string, cost: number, startedMs: StartTime): Deciding {
    startDecision(current, account, "");
    if (cost === 0) {
      decideLook(current, clock.now());
      return decisionOf(current, startedMs);
    }
    const step = decideCost(node, current, cost);
    if (step === MISSED) return miss(account, startedMs, (since) => take(id, cost, since));
    if (step === DECIDED_SYNC) syncer.wake(account);
    return decisionOf(current, startedMs);
  }

  function miss(account: LimiterAccount, startedMs: StartTime, again: Again): Deciding {
    const now = clock.now();
    if (syncer.isClosed()) {
      if (!decideCached(current, "cached", now)) refuseWithoutStore(current);
      return decisionOf(current, startedMs);
    }
    syncer.level();
    const step = decideMiss(node, current, now);
    if (step === WAIT) return wait(account, startedMs ?? now, again);
    if (step === DECIDED_SYNC) syncer.wake(account);
    return decisionOf(current, startedMs);
  }

  function wait(account: LimiterAccount, startedMs: number, again: Again): Promise<Decision> {
    const outcome = newOutcome(account, current.method, current.cost);
    return new Promise((resolve) => {
      const waiter: LimiterWaiter = {
        ...newWaiter(outcome, startedMs + node.options.timeoutMs),
        wake: () => resolve(decisionOf(outcome, startedMs, true)),
        decideAgain: () => resolve(again(startedMs)),
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

  return {
    check: (id, method, contentLength) => check(id, method, contentLength),
    take: (id, cost) => take(id, cost),
    refuse: (code, method) => refuse(code, method, undefined),
    giveBack: (id, tokens) => giveBack(apps.get(id) ?? fallback, tokens),

    limits: {
      enter(limits) {
        const account = accounts.enterLimit(limits);
        refit(node, account, clock.now());
        return account;
      },
      take: (account, cost) => takeOf(account, account.limits.id, cost, startTime()),
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
      const changed = nodeOptions(next);
      const removed = accounts.replace(next.apps, changed.lease);
      fallback = fallbackOf(next);
      syncer.reconfigure(next.target, changed, removed);
      for (const account of removed) for (const waiter of takeWaiters(account)) waiter.decideAgain();
    },

    stats() {
      const { without_store: withoutStore, ...others } = counts;
      const { syncs, failures, emergency, liveNodes } = node;
      const level = syncer.level();
      return { ...others, withoutStore, syncs, failedSyncs: failures, level, emergency, liveNodes };
    },

    balances: () =>
      Array.from(apps.values(), ({ limits, cell, sync, lease }) => ({
        app: limits.id,
        balance: cell.get(),
        remaining: sync.remaining,
        refusedCode: lease.refusedCode,
      })),

    close: syncer.close,
  };
}
