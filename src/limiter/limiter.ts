/** The Node host of the engine: decides about requests, with a promise for those that wait for a sync. */

import type { AppLimits } from "../core/app-limits.js";
import { OK, UNKNOWN_APP } from "../core/codes.js";
import { deviation } from "../core/cost.js";
import { DEFAULT_APP } from "../core/identity.js";
import { defaultLeaseOptions, isRefused } from "../core/lease.js";
import { newOutcome, type Outcome } from "../engine/account.js";
import {
  DECIDED_SYNC,
  decide,
  decideCached,
  decideCost,
  decideLook,
  decideMiss,
  estimateCost,
  MISSED,
  refuseWithoutStore,
  startDecision,
  WAIT,
} from "../engine/decide.js";
import { leaveNode, refit } from "../engine/limit-changes.js";
import type { NodeOptions } from "../engine/node.js";
import { actualCost, refund, settleExchange } from "../engine/settle.js";
import { addWaiter, newWaiter, takeWaiters } from "../engine/waiters.js";
import { NO_LIMITS, type RequestAttributes } from "../limit-rules/limit-rules.js";
import { systemClock } from "../shared/clock.js";
import { createAccounts, type LimiterAccount, type LimiterWaiter } from "./accounts.js";
import { decisionFrom, unknownApp } from "./decisions.js";
import type { Decision, ExchangeEnd, LimiterOptions, LimiterSettings } from "./limiter-contract.js";
import { type DecisionCounts, limiterStats } from "./limiter-stats.js";
import { AGAIN, type JointOutcome } from "./limits/joint-payments.js";
import { createLimitChecks } from "./limits/limit-checks.js";
import { isMeteredExchange, Meter, type MeterLimiter, type Transfer } from "./meter.js";
import { createShardSyncers } from "./shard-syncers.js";
import { createSharedState } from "./shared-state.js";

export type * from "./limiter-contract.js";
export type { Meter, Transfer } from "./meter.js";

type Deciding = Decision | Promise<Decision>;

/** Undefined: the decision is immediate, and nobody observes how long it takes. */
type StartTime = number | undefined;

/** Makes the decision about a waiting request again, because the account that should pay was removed. */
type Again = (startedMs: number) => Deciding;

interface CheckedRequest {
  app: string;
  method: string;
  contentLength: number;
  attributes?: RequestAttributes | undefined;
}

/** Default of `maxValues`. */
const MAX_VALUES = 10_000;

/** Counts and observes a decision, and returns it. */
type Recorder = (decision: Decision, startedMs: StartTime, waited: boolean) => Decision;

/** Why tokens of a stated cost are taken. */
interface TakeKind {
  record: Recorder;
  /** The default app pays if the app is not configured. */
  usesFallback: boolean;
}

interface Taking {
  id: string;
  cost: number;
  kind: TakeKind;
}

/** For an exchange that was admitted before: no other decision. If its app was removed meanwhile, it is settled as usual. */
const more: TakeKind = {
  record: (decision) => (decision.code === UNKNOWN_APP ? { ...decision, allowed: true } : decision),
  usesFallback: false,
};

function nodeOptions({ lease, timeoutMs = 1000, failOpenTokens }: LimiterSettings): NodeOptions {
  return { lease: { ...defaultLeaseOptions, ...lease }, timeoutMs, failOpenTokens, heartbeats: true };
}

export type Limiter = ReturnType<typeof createLimiter>;
export type LimiterStats = ReturnType<Limiter["stats"]>;

export function createLimiter(options: LimiterOptions) {
  const { clock = systemClock, observer = {}, defer = queueMicrotask } = options;
  const firstOptions = nodeOptions(options);
  const accounts = createAccounts({
    apps: options.apps,
    lease: firstOptions.lease,
    shards: options.target.shards.length,
    now: clock.now,
  });
  const { apps } = accounts;
  const counts: DecisionCounts = { local: 0, remote: 0, cached: 0, without_store: 0, refused: 0, dryRunRefused: 0 };
  const syncers = createShardSyncers({ ...options, clock, observer, defer, accounts, nodeOptions: firstOptions });
  const syncerOf = syncers.of;
  let fallback = fallbackOf(options);
  /** Reused by all decisions that do not wait. */
  const current = {} as Outcome;
  const startTime: () => StartTime = observer.decided === undefined ? () => undefined : clock.now;

  /** The account that pays for unknown apps. */
  function fallbackOf({ unknownApps }: LimiterSettings): LimiterAccount | undefined {
    return unknownApps === "reject" ? undefined : apps.get(DEFAULT_APP);
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

  const decided: TakeKind = { record: recorded, usesFallback: true };
  function check(request: CheckedRequest, startedMs: StartTime = startTime()): Deciding {
    const { app: id, method, contentLength, attributes } = request;
    const account = apps.get(id) ?? fallback;
    if (account === undefined) return refuse(UNKNOWN_APP, method, startedMs);
    startDecision(current, account, method, attributes?.profile);
    if (attributes !== undefined && limitChecks.hasRules()) return checkLimits(request, attributes, startedMs);
    const syncer = syncerOf(account);
    const step = decide(syncer.node, current, contentLength);
    if (step === MISSED) return miss(account, startedMs, (since) => check(request, since));
    if (step === DECIDED_SYNC) syncer.wake(account);
    return recorded(decisionFrom(current, syncer.node.clock), startedMs, false);
  }

  /** As `check`, for a request that may have limits besides that of its app. */
  function checkLimits(request: CheckedRequest, attributes: RequestAttributes, startedMs: StartTime): Deciding {
    const app = current as JointOutcome;
    if (!estimateCost(syncerOf(app.account).node, app, request.contentLength)) {
      return recorded(decisionFrom(app, clock.now()), startedMs, false);
    }
    const made = limitChecks.check(app, request.contentLength, attributes);
    if (!(made instanceof Promise)) return recorded(made, startedMs, false);
    const since = startedMs ?? clock.now();
    return made.then((decision) => (decision === AGAIN ? check(request, since) : recorded(decision, since, true)));
  }

  /** As `check`, for a cost that the caller states. */
  function take(id: string, cost: number, kind = decided, startedMs = startTime()): Deciding {
    const account = apps.get(id) ?? (kind.usesFallback ? fallback : undefined);
    if (account === undefined) return kind.record(unknownApp(UNKNOWN_APP, ""), startedMs, false);
    return takeOf(account, { id, cost, kind }, startedMs);
  }

  function takeOf(account: LimiterAccount, { id, cost, kind }: Taking, startedMs: StartTime): Deciding {
    const { record } = kind;
    startDecision(current, account, "");
    if (cost === 0) {
      const now = clock.now();
      decideLook(current, now);
      return record(decisionFrom(current, now), startedMs, false);
    }
    const syncer = syncerOf(account);
    const step = decideCost(syncer.node, current, cost);
    if (step === MISSED) return miss(account, startedMs, (since) => take(id, cost, kind, since), record);
    if (step === DECIDED_SYNC) syncer.wake(account);
    return record(decisionFrom(current, syncer.node.clock), startedMs, false);
  }

  function miss(account: LimiterAccount, startedMs: StartTime, again: Again, record: Recorder = recorded): Deciding {
    const now = clock.now();
    const syncer = syncerOf(account);
    if (syncer.isClosed()) {
      if (!decideCached(current, "cached", now)) refuseWithoutStore(current);
      return record(decisionFrom(current, now), startedMs, false);
    }
    syncer.level();
    const step = decideMiss(syncer.node, current, now);
    if (step === WAIT) return wait(account, startedMs ?? now, again, record);
    if (step === DECIDED_SYNC) syncer.wake(account);
    return record(decisionFrom(current, now), startedMs, false);
  }

  function wait(account: LimiterAccount, startedMs: number, again: Again, record: Recorder): Promise<Decision> {
    const outcome = newOutcome(account, current.method, current.cost);
    outcome.profile = current.profile;
    const syncer = syncerOf(account);
    return new Promise((resolve) => {
      const waiter: LimiterWaiter = {
        ...newWaiter(outcome, startedMs + syncer.node.options.timeoutMs),
        wake: () => resolve(record(decisionFrom(outcome, clock.now()), startedMs, true)),
        decideAgain: () => resolve(again(startedMs)),
      };
      addWaiter(account, waiter);
      syncer.wake(account);
    });
  }

  /** The decision does not name the app of the request, so that clients cannot create labels. */
  function refuse(code: string, method: string, startedMs: StartTime): Decision {
    return recorded(unknownApp(code, method), startedMs, false);
  }

  function giveBack(account: LimiterAccount | undefined, tokens: number): void {
    if (account === undefined || !(tokens > 0)) return;
    refund(account, tokens);
    syncerOf(account).spent(account);
  }

  function enter(limits: AppLimits, single = false): LimiterAccount {
    const account = accounts.enterLimit(limits, !single);
    refit(syncerOf(account).node, account, clock.now());
    return account;
  }

  function letGo(limit: LimiterAccount): boolean {
    if (limit.waiters.length > 0) return false;
    accounts.leaveLimit(limit);
    leaveNode(syncerOf(limit).node, limit);
    return true;
  }

  const shared = createSharedState({ clock, syncerOf, giveBack });

  const limitChecks = createLimitChecks({
    shared,
    rules: options.limits ?? NO_LIMITS,
    maxValues: options.maxValues ?? MAX_VALUES,
    clock,
    limits: { enter, letGo, count: accounts.valueCount },
    owner: accounts.limitOwner,
    syncerOf,
  });

  const meterLimiter: MeterLimiter = {
    clock,
    observer,
    account: (app) => apps.get(app),
    take: (app, tokens) => take(app, tokens, more),
    giveBack: (app, tokens) => giveBack(accounts.owner(app), tokens),
  };

  return {
    /**
     * Returns a promise only if the request has to wait for a sync. With `attributes`, the limits that apply to the request
     * are taken together with the tokens of its app.
     */
    check: (app: string, method: string, contentLength: number, attributes?: RequestAttributes) =>
      check({ app, method, contentLength, attributes }),
    /** Takes tokens of the limits that match, without an app: `hits` of each. */
    checkLimits: limitChecks.alone.check,
    /** The limits that match, by their state in the store; nothing is taken. */
    lookAtLimits: limitChecks.alone.look,
    /** Returns `hits` tokens of the limits that match. False if the store does not reply. */
    refundLimits: limitChecks.alone.refund,
    /** Takes `cost` tokens of an app; 0 takes nothing and returns the current state. */
    take: (app: string, cost: number) => take(app, cost),
    /** The decision about a request that is refused because of its identity. */
    refuse: (code: string, method: string) => refuse(code, method, undefined),
    /** The state of an app in the store, as a decision about one token; nothing is taken. */
    async look(app: string): Promise<Decision> {
      const account = apps.get(app) ?? fallback;
      return account === undefined ? refuse(UNKNOWN_APP, "", undefined) : shared.look(account);
    },
    /** Returns tokens of `take`, at most as many as this node has spent. */
    giveBack: (app: string, tokens: number) => giveBack(apps.get(app) ?? fallback, tokens),

    /** The limits of a configured app. */
    limitsOf: (app: string): AppLimits | undefined => apps.get(app)?.limits,

    /** Limits that a request's descriptors select. They exist beside the apps, and requests cannot name them. */
    limits: {
      /** Adds a limit, brings one back, or changes the numbers of an existing one. */
      enter,
      take: (limit: LimiterAccount, cost: number) =>
        takeOf(limit, { id: limit.limits.id, cost, kind: decided }, startTime()),
      giveBack: (limit: LimiterAccount, tokens: number) => giveBack(limit, tokens),
      look: shared.look,
      refund: shared.refund,
      /** Whether a refusal of this cost is cached: taking it would be refused at once. */
      isRefused: ({ lease, cell }: LimiterAccount, cost: number) =>
        cell.get() < cost && isRefused(lease, cost, clock.now()),
      /** The limit is unused: its tokens are returned, then it is deleted. False while requests wait for it. */
      letGo,
      /** Number of values with their own bucket, including those that are leaving. */
      count: accounts.valueCount,
    },

    /** Charges an admitted exchange while it transfers bytes; undefined if the app is charged at the end only. */
    meter(decision: Decision, transfer: Transfer): Meter | undefined {
      const account = apps.get(decision.app);
      return account !== undefined && isMeteredExchange(account, decision)
        ? new Meter(meterLimiter, decision, transfer)
        : undefined;
    },

    /**
     * An admitted exchange has ended: charges or refunds the difference to what was paid, which is its estimate and the
     * tokens that its meter has taken.
     */
    settle(decision: Decision, requestBytes: number, responseBytes: number, end: ExchangeEnd = {}): void {
      observer.settled?.(decision);
      const account = decision.allowed ? accounts.owner(decision.app) : undefined;
      if (account === undefined) return;
      const { method, profile = account.limits.profile, appCode: code = decision.code } = decision;
      const { metered = 0, reportedCost } = end;
      const paid = { method, profile, code, cost: decision.cost + metered, reportedCost };
      if (decision.limits !== undefined) {
        limitChecks.settle(decision, actualCost(paid, requestBytes, responseBytes));
      }
      const difference = settleExchange(account, paid, requestBytes, responseBytes);
      if (difference !== 0) syncerOf(account).spent(account);
      const actual = paid.cost + difference;
      if (actual !== decision.cost) observer.deviated?.(decision, actual, deviation(decision.cost, actual));
    },

    /** Starts or ends an emergency before the next sync reports it. */
    setEmergency: syncers.setEmergency,
    pinLevel: syncers.pinLevel,

    /**
     * Applies new options; omitted ones get their defaults. Remaining apps keep their tokens (up to the new burst),
     * counters and learned sizes. Requests that wait for a removed app are decided under the new options. Exchanges of
     * removed apps are still settled, and their tokens are returned.
     */
    reconfigure(next: LimiterSettings): void {
      if (syncers.isClosed()) return;
      const changed = nodeOptions(next);
      const removed = accounts.replace(next.apps, changed.lease);
      fallback = fallbackOf(next);
      limitChecks.reconfigure(next.limits, next.maxValues ?? MAX_VALUES);
      syncers.reconfigure(next.target.shards, changed, removed);
      for (const account of removed) for (const waiter of takeWaiters(account)) waiter.decideAgain();
    },

    /**
     * Decisions by source and how many of them were refused (`dryRunRefused`: admitted by a dry run), and the syncs. `level`
     * is the highest of the shards, `levels` has that of each. `storeCalls`: of the last two seconds, on the slowest shard.
     */
    stats: () => limiterStats(counts, syncers.all, clock.now()),

    /** The balance of each configured app, and its state in the last reply. */
    balances: () =>
      Array.from(apps.values(), ({ limits, cell, sync, lease }) => ({
        app: limits.id,
        balance: cell.get(),
        remaining: sync.remaining,
        refusedCode: lease.refusedCode,
      })),

    /** Sends the final report and returns all tokens; waits at most `timeoutMs`. */
    async close(): Promise<void> {
      limitChecks.close();
      await syncers.close();
    },
  };
}
