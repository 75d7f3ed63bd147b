/** Counters per app: for the admin API per configured app, for metrics per label. */
import type { Decision } from "../../limiter/decision.js";
import { APP_WIDTH, appKey, type Counters, listOf, METHOD_WIDTH, methodKey } from "./counters.js";
import { methodLabels, reasonIndex, reasons } from "./labels.js";
import type { AppReport, RefusalReport } from "./reports.js";

/** Number of refusals kept per app. */
const KEPT_REFUSALS = 20;
const LONGEST_METHOD = 32;

/** The counters of one label, which several apps may share. */
export interface LabelCounters {
  readonly counters: Float64Array;
  /** By method index; allocated on first use. */
  readonly methods: (Float64Array | undefined)[];
}

export interface AppCounters {
  readonly app: string;
  label: string;
  /** Undefined until first use, and while metrics are disabled. */
  metrics: LabelCounters | undefined;
  allowed: number;
  refused: number;
  dryRunRefused: number;
  l3Hits: number;
  /** By reason index, including dry runs. */
  refusals: Float64Array | undefined;
  /** A ring buffer whose entries are reused: a flood of refusals allocates nothing. */
  lastRefusals: RefusalReport[];
  nextRefusal: number;
}

export function newAppCounters(app: string, label: string): AppCounters {
  return {
    app,
    label,
    metrics: undefined,
    allowed: 0,
    refused: 0,
    dryRunRefused: 0,
    l3Hits: 0,
    refusals: undefined,
    lastRefusals: [],
    nextRefusal: 0,
  };
}

export function newLabelCounters(): LabelCounters {
  return {
    counters: new Float64Array(APP_WIDTH),
    methods: methodLabels.map((): Float64Array | undefined => undefined),
  };
}

export function methodCounters({ methods }: LabelCounters, method: number): Float64Array {
  let counters = methods[method];
  if (counters === undefined) {
    counters = new Float64Array(METHOD_WIDTH);
    methods[method] = counters;
  }
  return counters;
}

export function exportLabel(label: string, { counters, methods }: LabelCounters, exported: Counters): void {
  exported[appKey(label)] = listOf(counters);
  methods.forEach((own, method) => {
    if (own !== undefined) exported[methodKey(label, method)] = listOf(own);
  });
}

/** @param at Unix time in milliseconds */
export function recordRefusal(counters: AppCounters, decision: Decision, at: number, node: string): void {
  counters.refusals ??= new Float64Array(reasons.length);
  counters.refusals[reasonIndex(decision.code) ?? 0]!++;
  const { code, cost, balance, remaining, limit, retryAfterMs, source, dryRun } = decision;
  const method = decision.method.length > LONGEST_METHOD ? decision.method.slice(0, LONGEST_METHOD) : decision.method;
  const kept = counters.lastRefusals[counters.nextRefusal];
  if (kept === undefined) {
    const refusal = { at, node, code, method, cost, balance, remaining, limit, retryAfterMs, source, dryRun };
    counters.lastRefusals.push(refusal);
  } else {
    kept.at = at;
    kept.code = code;
    kept.method = method;
    kept.cost = cost;
    kept.balance = balance;
    kept.remaining = remaining;
    kept.limit = limit;
    kept.retryAfterMs = retryAfterMs;
    kept.source = source;
    kept.dryRun = dryRun;
  }
  counters.nextRefusal = (counters.nextRefusal + 1) % KEPT_REFUSALS;
}

export function appReport(counters: AppCounters, node: string, balance: number): AppReport {
  const { app, allowed, refused, dryRunRefused, l3Hits, lastRefusals, nextRefusal } = counters;
  const refusals: Record<string, number> = {};
  counters.refusals?.forEach((count, index) => {
    if (count > 0) refusals[reasons[index]!] = count;
  });
  const oldestFirst = [...lastRefusals.slice(nextRefusal), ...lastRefusals.slice(0, nextRefusal)];
  return {
    node,
    app,
    balance,
    l3Hits,
    refusals,
    dryRunRefused,
    refused,
    requests: allowed + refused + dryRunRefused,
    allowed: allowed + dryRunRefused,
    lastRefusals: oldestFirst.reverse().map((refusal) => ({ ...refusal })),
  };
}
