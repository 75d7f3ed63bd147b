/** The numbers of apps: a tally of each configured one for operators, and the series that metrics are made of. */
import type { Decision } from "../../limiter/decision.js";
import { APP_WIDTH, appKey, type Counters, listOf, METHOD_WIDTH, methodKey } from "./counters.js";
import { methodLabels, reasonIndex, reasons } from "./labels.js";
import type { AppReport, RefusalReport } from "./node-report.js";

/** As many of an app's last refusals are kept. */
const KEPT_REFUSALS = 20;
const LONGEST_METHOD = 32;

/** What metrics tell of one label. Several apps may share it. */
export interface AppSeries {
  readonly numbers: Float64Array;
  /** By method; of methods that never came there is nothing. */
  readonly methods: (Float64Array | undefined)[];
}

export interface AppTally {
  readonly app: string;
  label: string;
  /** Missing until it is needed, and always where metrics are off. */
  series: AppSeries | undefined;
  allowed: number;
  refused: number;
  dryRunRefused: number;
  l3Hits: number;
  /** By reason, those of dry runs included. */
  refusals: Float64Array | undefined;
  last: KeptRefusals | undefined;
}

/** A ring that is written over and over: a flood of refusals allocates nothing. */
interface KeptRefusals {
  readonly ring: RefusalReport[];
  next: number;
}

export function newTally(app: string, label: string): AppTally {
  return {
    ...{ app, label, series: undefined, allowed: 0, refused: 0, dryRunRefused: 0, l3Hits: 0 },
    ...{ refusals: undefined, last: undefined },
  };
}

export function newSeries(): AppSeries {
  return {
    numbers: new Float64Array(APP_WIDTH),
    methods: methodLabels.map((): Float64Array | undefined => undefined),
  };
}

export function methodNumbers(series: AppSeries, method: number): Float64Array {
  let numbers = series.methods[method];
  if (numbers === undefined) {
    numbers = new Float64Array(METHOD_WIDTH);
    series.methods[method] = numbers;
  }
  return numbers;
}

export function exportSeries(label: string, series: AppSeries, counters: Counters): void {
  counters[appKey(label)] = listOf(series.numbers);
  series.methods.forEach((numbers, method) => {
    if (numbers !== undefined) counters[methodKey(label, method)] = listOf(numbers);
  });
}

/** @param at milliseconds since 1970 */
export function noteRefusal(tally: AppTally, decision: Decision, at: number, node: string): void {
  tally.refusals ??= new Float64Array(reasons.length);
  tally.refusals[reasonIndex(decision.code)]!++;
  tally.last ??= { ring: [], next: 0 };
  const { last } = tally;
  const { code, cost, balance, remaining, limit, retryAfterMs, source, dryRun } = decision;
  const method = decision.method.length > LONGEST_METHOD ? decision.method.slice(0, LONGEST_METHOD) : decision.method;
  const kept = last.ring[last.next];
  if (kept === undefined) {
    last.ring.push({ at, node, code, method, cost, balance, remaining, limit, retryAfterMs, source, dryRun });
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
  last.next = (last.next + 1) % KEPT_REFUSALS;
}

export function appReport(tally: AppTally, node: string, balance: number): AppReport {
  const { app, allowed, refused, dryRunRefused, l3Hits } = tally;
  const refusals: Record<string, number> = {};
  tally.refusals?.forEach((count, index) => {
    if (count > 0) refusals[reasons[index]!] = count;
  });
  return {
    ...{ node, app, balance, l3Hits, refusals, dryRunRefused, refused },
    requests: allowed + refused + dryRunRefused,
    allowed: allowed + dryRunRefused,
    lastRefusals: newestFirst(tally.last),
  };
}

function newestFirst(last: KeptRefusals | undefined): RefusalReport[] {
  if (last === undefined) return [];
  const { ring, next } = last;
  // The ring is full when the next one replaces one.
  const oldestFirst = [...ring.slice(next), ...ring.slice(0, next)];
  return oldestFirst.reverse().map((refusal) => ({ ...refusal }));
}
