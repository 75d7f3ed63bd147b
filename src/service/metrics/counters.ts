/** What stands where in the numbers that only grow, how they are named in a report, and how they are added. */
import type { StoreOutcome } from "../../store/observed-store.js";
import { callBoundsSeconds, costBounds, deviationBounds, histogramWidth, syncAppsBounds } from "./histogram.js";
import { connectionReasons, methodLabels, reasons } from "./labels.js";
import { latencyBoundsSeconds } from "./node-report.js";

/**
 * Of one app: L3, settled exchanges, latency of decisions by source, deviation of costs, refusals by reason. What most
 * requests touch stands at the beginning, close together.
 */
export const APP_HITS = 0;
export const APP_MISSES = 1;
export const APP_SETTLED = 2;
export const APP_LOCAL = 3;
export const APP_REMOTE = APP_LOCAL + histogramWidth(latencyBoundsSeconds);
export const APP_DEVIATION = APP_REMOTE + histogramWidth(latencyBoundsSeconds);
export const APP_REFUSALS = APP_DEVIATION + histogramWidth(deviationBounds);
export const APP_WIDTH = APP_REFUSALS + reasons.length;

/** Of one app and method: requests by status, cost. */
export const METHOD_ALLOWED = 0;
export const METHOD_REJECTED = 1;
export const METHOD_DRY_RUN = 2;
export const METHOD_COST = 3;
export const METHOD_WIDTH = METHOD_COST + histogramWidth(costBounds);

/** Of the messages of a node: apps in each, latency by outcome. */
export const syncOutcomes = ["ok", "error", "timeout"] as const;
export const SYNC_APPS = 0;
export const SYNC_LATENCY = histogramWidth(syncAppsBounds);
export const SYNC_WIDTH = SYNC_LATENCY + syncOutcomes.length * histogramWidth(callBoundsSeconds);

/** Of one command of the store: calls by outcome, latency. */
export const storeOutcomes: readonly StoreOutcome[] = [
  ...(["ok", "timeout", "unavailable", "overloaded", "out_of_memory", "denied", "script", "closed"] as const),
];
export const STORE_LATENCY = storeOutcomes.length;
export const STORE_WIDTH = STORE_LATENCY + histogramWidth(callBoundsSeconds);

/** Of connections: leases, refusals by reason, latency of taking a slot. */
export const CONNECTIONS_LOST = 0;
export const CONNECTIONS_RECLAIMED = 1;
export const CONNECTIONS_REFUSED = 2;
export const CONNECTIONS_ACQUIRE = CONNECTIONS_REFUSED + connectionReasons.length;
export const CONNECTIONS_WIDTH = CONNECTIONS_ACQUIRE + histogramWidth(callBoundsSeconds);

/** Names in a report. No label has a space in it. */
export const SYNC_KEY = "sync";
export const CONNECTIONS_KEY = "connections";
export const appKey = (label: string) => `app ${label}`;
export const methodKey = (label: string, method: number) => `method ${label} ${methodLabels[method]}`;
export const storeKey = (command: string) => `store ${command}`;

export type Counters = Record<string, number[]>;

/** As plain numbers, which a message can carry. */
export function listOf(numbers: Float64Array): number[] {
  const list: number[] = [];
  // Many times as fast as Array.from, and workers do it for every app while requests wait.
  for (let i = 0; i < numbers.length; i++) list.push(numbers[i]!);
  return list;
}

/** Adds what another life or another worker has counted. Only what `isWanted` by its name. */
export function addCounters(sum: Map<string, number[]>, counters: Counters, isWanted: (key: string) => boolean): void {
  for (const [key, numbers] of Object.entries(counters)) {
    if (!isWanted(key)) continue;
    const known = sum.get(key);
    if (known === undefined) sum.set(key, [...numbers]);
    else for (let i = 0; i < numbers.length; i++) known[i] = (known[i] ?? 0) + numbers[i]!;
  }
}
