/** Layout of counter arrays: which counter and histogram is at which index, and the keys of arrays in reports. */
import { COST_BOUNDS } from "../../core/cost.js";
import type { StoreOutcome } from "../../store/observed-store.js";
import { connectionReasons, methodLabels, reasons } from "./labels.js";
import { latencyBoundsSeconds } from "./reports.js";

/** Histogram bounds for calls over a network. */
export const callBoundsSeconds = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];
export const costBounds = COST_BOUNDS;
/** Relative deviation of the actual cost from the estimate; 0: exact. */
export const deviationBounds = [0, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10];
export const syncAppsBounds = [0, 1, 2, 5, 10, 25, 50, 100, 200, 400];

/** A histogram is stored as its sum, one count per bucket (not cumulative), and the count above all bounds. */
export function histogramWidth(bounds: readonly number[]): number {
  return bounds.length + 2;
}

/** Linear search, because most values are small. */
export function bucketOf(bounds: readonly number[], value: number): number {
  let bucket = 0;
  while (bucket < bounds.length && value > bounds[bucket]!) bucket++;
  return bucket;
}

/** @param at index of the histogram's sum */
export function observe(counters: Float64Array, at: number, bounds: readonly number[], value: number): void {
  counters[at]! += value;
  counters[at + 1 + bucketOf(bounds, value)]!++;
}

/** Per app label. The counters that most requests increment come first, so that they share cache lines. */
export const APP_HITS = 0;
export const APP_MISSES = 1;
export const APP_SETTLED = 2;
export const APP_LOCAL = 3;
export const APP_REMOTE = APP_LOCAL + histogramWidth(latencyBoundsSeconds);
export const APP_DEVIATION = APP_REMOTE + histogramWidth(latencyBoundsSeconds);
export const APP_REFUSALS = APP_DEVIATION + histogramWidth(deviationBounds);
export const APP_WIDTH = APP_REFUSALS + reasons.length;

/** Per app label and method. */
export const METHOD_ALLOWED = 0;
export const METHOD_REJECTED = 1;
export const METHOD_DRY_RUN = 2;
export const METHOD_COST = 3;
export const METHOD_WIDTH = METHOD_COST + histogramWidth(costBounds);

/** Syncs of a node: apps per message, latency by outcome. */
export const syncOutcomes = ["ok", "error", "timeout"] as const;
export const SYNC_APPS = 0;
export const SYNC_LATENCY = histogramWidth(syncAppsBounds);
export const SYNC_WIDTH = SYNC_LATENCY + syncOutcomes.length * histogramWidth(callBoundsSeconds);

/** Per store command: calls by outcome, latency. */
export const storeOutcomes: readonly StoreOutcome[] = [
  "ok",
  "timeout",
  "unavailable",
  "overloaded",
  "out_of_memory",
  "denied",
  "script",
  "closed",
];
export const STORE_LATENCY = storeOutcomes.length;
export const STORE_WIDTH = STORE_LATENCY + histogramWidth(callBoundsSeconds);

/** Connections: leases, refusals by reason, latency of acquiring a slot. */
export const CONNECTIONS_LOST = 0;
export const CONNECTIONS_RECLAIMED = 1;
export const CONNECTIONS_REFUSED = 2;
export const CONNECTIONS_ACQUIRE = CONNECTIONS_REFUSED + connectionReasons.length;
export const CONNECTIONS_WIDTH = CONNECTIONS_ACQUIRE + histogramWidth(callBoundsSeconds);

/** Keys in reports. Labels contain no spaces. */
export const SYNC_KEY = "sync";
export const CONNECTIONS_KEY = "connections";
export const appKey = (label: string) => `app ${label}`;
export const methodKey = (label: string, method: number) => `method ${label} ${methodLabels[method]}`;
export const storeKey = (command: string) => `store ${command}`;

export type Counters = Record<string, number[]>;

/** A plain array for messages between processes. */
export function listOf(counters: Float64Array): number[] {
  const list: number[] = [];
  // Much faster than Array.from; workers do this for every app while requests wait.
  for (let i = 0; i < counters.length; i++) list.push(counters[i]!);
  return list;
}

/** Adds the counters whose key is wanted to `sum`. */
export function addCounters(sum: Map<string, number[]>, counters: Counters, isWanted: (key: string) => boolean): void {
  for (const [key, values] of Object.entries(counters)) {
    if (!isWanted(key)) continue;
    const known = sum.get(key);
    if (known === undefined) sum.set(key, [...values]);
    else for (let i = 0; i < values.length; i++) known[i] = (known[i] ?? 0) + values[i]!;
  }
}
