/** Decisions of data planes as the admin API shows them: in total and per configured app, since this service started. */
import type { DecisionSource } from "../../engine/account.js";
import type { RefusalReport } from "./app-counters.js";
import { methodLabels, reasons } from "./labels.js";
import type { LimitReport } from "./node-metrics.js";
import { newLatency } from "./process-counters.js";
import { addCount, keepRefusal, type RefusalCounts, reasonKey, reportedReasons, SOME_LIMIT } from "./refusal-counts.js";
import type { PlaneRefusal, PlaneReport } from "./reports.js";
import type { Values } from "./series.js";

export interface DecisionTotals {
  requests: number;
  allowed: number;
  refused: number;
  dryRunRefused: number;
  /** Decided without a sync. */
  l3Hits: number;
  /** By reason. */
  refusals: RefusalCounts;
  dryRunRefusals: RefusalCounts;
  /** Requests by cost, with the bounds of ratelimit_request_cost. */
  costs: number[];
}

/** Of all apps. */
export interface AllDecisions extends DecisionTotals {
  /** Decision times with `latencyBoundsSeconds`. The first number is their sum in seconds. */
  latency: Values;
}

function noTotals(): DecisionTotals {
  const none = { requests: 0, allowed: 0, refused: 0, dryRunRefused: 0, l3Hits: 0 };
  return { ...none, refusals: {}, dryRunRefusals: {}, costs: [] };
}

export function noDecisions(): AllDecisions {
  return { ...noTotals(), latency: newLatency() };
}

/** A data plane that states an earlier time is wrong, or had no contact for this long. */
const OLDEST_MS = 600_000;
const sources: readonly string[] = ["local", "remote", "cached", "without_store"] satisfies DecisionSource[];

/** Of one app. */
export interface AppDecisions extends DecisionTotals {
  lastRefusals: RefusalReport[];
}

export const noAppDecisions = (): AppDecisions => ({ ...noTotals(), lastRefusals: [] });

export type PlaneTotals = ReturnType<typeof createPlaneTotals>;

/** @param wallClock Unix time in milliseconds */
export function createPlaneTotals(wallClock = Date.now) {
  const all = noDecisions();
  const byApp = new Map<string, AppDecisions>();
  const byLimit = new Map<string, LimitReport>();
  /** Of all apps. Newest last. */
  const recent: (RefusalReport & { app: string })[] = [];

  function ofConfigured(app: string): AppDecisions {
    let own = byApp.get(app);
    if (own === undefined) {
      own = noAppDecisions();
      byApp.set(app, own);
    }
    return own;
  }

  return {
    /** @param isConfigured other apps are counted in the total only, so that data planes cannot grow the table */
    add({ app, numbers }: PlaneReport["apps"][number], isConfigured: boolean): void {
      addTo(all, numbers);
      for (const { code, dryRun, own } of reportedReasons(numbers, reasons))
        addCount(reasonsIn(all, dryRun), code, own);
      for (const name of latencyNames) addLatency(all.latency, numbers[name] ?? []);
      if (!isConfigured) return;
      const totals = ofConfigured(app);
      addTo(totals, numbers);
      for (const { code, dryRun, own, byLimits } of reportedReasons(numbers, reasons)) {
        addCount(reasonsIn(totals, dryRun), code, own);
        addCount(reasonsIn(totals, dryRun), reasonKey(code, SOME_LIMIT), byLimits);
      }
    },
    /** @param name of a configured limit */
    addLimit(name: string, numbers: PlaneReport["apps"][number]["numbers"]): void {
      const [, ...before] = byLimit.get(name) ?? [name, 0, 0, 0];
      const [allowed = 0, rejected = 0, dryRun = 0] = numbers.requests ?? [];
      byLimit.set(name, [name, before[0] + allowed, before[1] + rejected, before[2] + dryRun]);
      for (const { code, dryRun: isDryRun, own } of reportedReasons(numbers, reasons)) {
        addCount(reasonsIn(all, isDryRun), reasonKey(code, name), own);
      }
    },
    /**
     * Of a configured app. A newer data plane may send codes, methods and sources that are not known here: those are ignored.
     * @param clock the current time of the data plane, if it stated one
     */
    addRefusal(node: string, refusal: PlaneRefusal, clock = refusal.at): void {
      const { app, at, code, method, cost, balance, remaining, limit, source } = refusal;
      if (!reasons.includes(code) || !methodLabels.includes(method) || !isSource(source)) return;
      const report = {
        at: wallClock() - Math.min(Math.max(clock - at, 0), OLDEST_MS),
        node,
        ...{ code, method, cost, balance, remaining, limit, source },
        retryAfterMs: refusal.retry_after_ms,
        dryRun: refusal.dry_run,
        ...(refusal.limit_name === undefined ? {} : { limitName: refusal.limit_name }),
      };
      keepRefusal(ofConfigured(app).lastRefusals, report);
      keepRefusal(recent, { app, ...report });
    },
    all: () => all,
    /** The newest refusal last. Undefined if data planes had no requests of the app. */
    ofApp: (app: string): AppDecisions | undefined => byApp.get(app),
    apps: (): Iterable<[string, DecisionTotals]> => byApp,
    limits: (): Iterable<LimitReport> => byLimit.values(),
    /** Of all apps. */
    recentRefusals: (): readonly (RefusalReport & { app: string })[] => recent,
  };
}

function isSource(source: string): source is DecisionSource {
  return sources.includes(source);
}

function addTo(totals: DecisionTotals, numbers: Record<string, number[]>): void {
  for (const [name, [first = 0, second = 0, third = 0, _sum, ...costs]] of Object.entries(numbers)) {
    if (name === "l3") totals.l3Hits += first;
    else if (methodLabels.includes(name)) {
      totals.requests += first + second + third;
      totals.allowed += first + third;
      totals.refused += second;
      totals.dryRunRefused += third;
      for (const [i, count] of costs.entries()) totals.costs[i] = (totals.costs[i] ?? 0) + count;
    }
  }
}

function reasonsIn({ refusals, dryRunRefusals }: DecisionTotals, isDryRun: boolean): RefusalCounts {
  return isDryRun ? dryRunRefusals : refusals;
}

const latencyNames = ["latency_local", "latency_remote"];

/** Adds the numbers that a data plane sent. Their sum is in nanoseconds. */
function addLatency(sums: Values, [nanoseconds = 0, ...counts]: readonly number[]): void {
  sums[0] += nanoseconds / 1e9;
  for (let i = 1; i < sums.length; i++) sums[i]! += counts[i - 1] ?? 0;
}
