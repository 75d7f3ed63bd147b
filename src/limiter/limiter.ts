/** The Node host of the engine: decides about requests, with a promise for those that wait for a sync. */

import type { AppLimits } from "../core/app-limits.js";
import { OK, UNKNOWN_APP } from "../core/codes.js";
import { deviation } from "../core/cost.js";
import { DEFAULT_APP } from "../core/identity.js";
import { defaultLeaseOptions, isRefused } from "../core/lease.js";
import { newOutcome } from "../engine/account.js";
import { decideLook } from "../engine/decide.js";
import { leaveNode, refit } from "../engine/limit-changes.js";
import {
  endLimits,
  INVALID_REQUEST,
  type LimitedRequest,
  NOT_TAKEN,
  newLimitedFields,
  startRequest,
  TAKEN,
  takeLimits,
} from "../engine/limited-request.js";
import type { NodeOptions } from "../engine/node.js";
import {
  corrected,
  endTogether,
  giveBack,
  giveBackPaid,
  payCost,
  payEstimate,
  payTogether,
  spent,
} from "../engine/payments.js";
import { actualCost, settleExchange } from "../engine/settle.js";
import { takeWaiters } from "../engine/waiters.js";
import { NO_LIMITS, type RequestAttributes } from "../limit-rules/limit-rules.js";
import { systemClock } from "../shared/clock.js";
import { createAccounts, type LimiterAccount } from "./accounts.js";
import { decisionFrom, requestDecision, unknownApp } from "./decisions.js";
import type { Decision, ExchangeEnd, LimiterOptions, LimiterSettings } from "./limiter-contract.js";
import { createLimiterHost } from "./limiter-host.js";
import { type DecisionCounts, limiterStats } from "./limiter-stats.js";
import { createLimitChecks } from "./limits/limit-checks.js";
import { isMeteredExchange, Meter, type MeterLimiter, type Transfer } from "./meter.js";
import { createShardSyncers, newLimiterNodes } from "./shard-syncers.js";
import { createSharedState } from "./shared-state.js";

export type * from "./limiter-contract.js";
export type { Meter, Transfer } from "./meter.js";

type Deciding = Decision | Promise<Decision>;

/** Undefined: the decision is immediate, and nobody observes how long it takes. */
type StartTime = number | undefined;

/** Makes the decision about a waiting request again, because the account that should pay was removed. */
type Again = (startedMs: number) => Deciding;

interface RequestToCheck {
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
  return { lease: { ...defaultLeaseOptions, ...lease }, timeoutMs, failOpenTokens };
}

type JointRequest = LimitedRequest<LimiterAccount>;

const newRequest = () => newLimitedFields() as JointRequest;

export type Limiter = ReturnType<typeof createLimiter>;
export type LimiterStats = ReturnType<Limiter["stats"]>;

export function createLimiter(options: LimiterOptions) {
  const { clock = systemClock, observer = {}, defer = queueMicrotask } = options;
  const firstOptions = nodeOptions(options);
  const nodes = newLimiterNodes(firstOptions, options.target.shards.length);
  const accounts = createAccounts({ apps: options.apps, nodes, now: clock.now });
  const { apps } = accounts;
  const counts: DecisionCounts = { local: 0, remote: 0, cached: 0, without_store: 0, refused: 0, dryRunRefused: 0 };
  const host = createLimiterHost({
    clock,
    defer,
    observer,
    accounts,
    syncerOf: (node) => syncers.of(node),
    valueAccount: (match) => limitChecks.accountOf(match),
  });
  const syncers = createShardSyncers({
    host,
    name: options.node,
    target: options.target,
    clock,
    observer,
    accounts,
    nodes,
  });
  let fallback = fallbackOf(options);
  /** Reused by all decisions that do not wait. */
  let current = newRequest();
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
  function check(request: RequestToCheck, startedMs: StartTime = startTime()): Deciding {
    const { app: id, method, contentLength, attributes } = request;
    const account = apps.get(id) ?? fallback;
    if (account === undefined) return refuse(UNKNOWN_APP, method, startedMs);
    startRequest(current, account, method, attributes?.profile);
    if (attributes !== undefined && limitChecks.find(current.matched, attributes))
      return checkLimits(request, startedMs);
    if (payEstimate(host, current, contentLength)) return wait(startedMs, (since) => check(request, since));
    return recorded(decisionFrom(current, account.node.clock), startedMs, false);
  }

  /** As `check`, for a request that has limits besides that of its app: they were found. */
  function checkLimits(request: RequestToCheck, startedMs: StartTime): Deciding {
    const own = current;
    const { node } = own.account;
    const result = takeLimits(host, own, request.contentLength);
    if (result === NOT_TAKEN) {
      const waiting = payTogether(host, own.outcomes);
      if (waiting.length > 0) {
        current = newRequest();
        const since = startedMs ?? clock.now();
        return host.awaitTokens(waiting, since).then((again) => decideWaiting(own, request, again, since));
      }
    } else if (result === TAKEN) for (const { account, balance } of own.outcomes) spent(host, account, balance);
    if (result !== INVALID_REQUEST) endLimits(own, result === TAKEN, node.clock);
    return recorded(requestDecision(own, node.clock), startedMs, false);
  }

  /** `again`: an app was removed while the request waited. */
  function decideWaiting(own: JointRequest, request: RequestToCheck, again: boolean, startedMs: number): Deciding {
    if (again) {
      giveBackPaid(host, own.outcomes);
      return check(request, startedMs);
    }
    endTogether(host, own.outcomes);
    endLimits(own, false, clock.now());
    return recorded(requestDecision(own, clock.now()), startedMs, true);
  }

  /** As `check`, for a cost that the caller states. */
  function take(id: string, cost: number, kind = decided, startedMs = startTime()): Deciding {
    const account = apps.get(id) ?? (kind.usesFallback ? fallback : undefined);
    if (account === undefined) return kind.record(unknownApp(UNKNOWN_APP, ""), startedMs, false);
    return takeOf(account, { id, cost, kind }, startedMs);
  }

  function takeOf(account: LimiterAccount, { id, cost, kind }: Taking, startedMs: StartTime): Deciding {
    const { record } = kind;
    startRequest(current, account, "", undefined);
    if (cost === 0) {
      const now = clock.now();
      decideLook(current, now);
      return record(decisionFrom(current, now), startedMs, false);
    }
    if (payCost(host, current, cost)) return wait(startedMs, (since) => take(id, cost, kind, since), record);
    return record(decisionFrom(current, account.node.clock), startedMs, false);
  }

  /** The current request has to wait. */
  function wait(startedMs: StartTime, again: Again, record: Recorder = recorded): Promise<Decision> {
    const { account, method, cost, profile } = current;
    const outcome = { ...newOutcome(account, method, cost), profile };
    const since = startedMs ?? clock.now();
    return host
      .awaitTokens([outcome], since)
      .then((isRemoved) => (isRemoved ? again(since) : record(decisionFrom(outcome, clock.now()), since, true)));
  }

  /** The decision does not name the app of the request, so that clients cannot create labels. */
  function refuse(code: string, method: string, startedMs: StartTime): Decision {
    return recorded(unknownApp(code, method), startedMs, false);
  }

  function returnTokens(account: LimiterAccount | undefined, tokens: number): void {
    if (account !== undefined && tokens > 0) giveBack(host, account, tokens);
  }

  function enter(limits: AppLimits, single = false): LimiterAccount {
    const account = accounts.enterLimit(limits, !single);
    refit(account.node, account, clock.now());
    return account;
  }

  function letGo(limit: LimiterAccount): boolean {
    if (limit.waiters.length > 0) return false;
    accounts.leaveLimit(limit);
    leaveNode(limit.node, limit);
    return true;
  }

  const shared = createSharedState({ clock, syncerOf: ({ node }) => syncers.of(node), giveBack: returnTokens });

  const limitChecks = createLimitChecks({
    host,
    shared,
    rules: options.limits ?? NO_LIMITS,
    maxValues: options.maxValues ?? MAX_VALUES,
    clock,
    limits: { enter, letGo, count: accounts.valueCount, leavingCount: accounts.leavingValueCount },
    owner: accounts.limitOwner,
  });

  const meterLimiter: MeterLimiter = {
    clock,
    observer,
    account: (app) => apps.get(app),
    take: (app, tokens) => take(app, tokens, more),
    giveBack: (app, tokens) => returnTokens(accounts.owner(app), tokens),
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
    giveBack: (app: string, tokens: number) => returnTokens(apps.get(app) ?? fallback, tokens),

    /** The limits of a configured app. */
    limitsOf: (app: string): AppLimits | undefined => apps.get(app)?.limits,

    /** Limits that a request's descriptors select. They exist beside the apps, and requests cannot name them. */
    limits: {
      /** Adds a limit, brings one back, or changes the numbers of an existing one. */
      enter,
      take: (limit: LimiterAccount, cost: number) =>
        takeOf(limit, { id: limit.limits.id, cost, kind: decided }, startTime()),
      giveBack: (limit: LimiterAccount, tokens: number) => returnTokens(limit, tokens),
      look: shared.look,
      refund: shared.refund,
      /** Whether a refusal of this cost is cached: taking it would be refused at once. */
      isRefused: ({ lease, cell }: LimiterAccount, cost: number) =>
        cell.get() < cost && isRefused(lease, cost, clock.now()),
      /** The limit is unused: its tokens are returned, then it is deleted. False while requests wait for it. */
      letGo,
      /** Number of values with their own bucket, including those that are leaving. */
      count: accounts.valueCount,
      leavingCount: accounts.leavingValueCount,
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
      corrected(host, account, difference);
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
      for (const node of nodes) node.options = changed;
      const removed = accounts.replace(next.apps);
      fallback = fallbackOf(next);
      limitChecks.reconfigure(next.limits, next.maxValues ?? MAX_VALUES);
      syncers.reconfigure(next.target.shards, removed);
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
