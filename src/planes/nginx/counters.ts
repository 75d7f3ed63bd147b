/** Counts what a worker decides, and adds it to what all workers count together. */
import { OK } from "../../core/codes.js";
import type { Exchange } from "./exchanges.js";
import { type App, worker } from "./state.js";

export function count(exchange: Exchange): void {
  const { counts } = exchange.app;
  const source = exchange.source as "local" | "remote" | "remembered" | "dark";
  counts[source] = counts[source] + 1;
  if (!exchange.allowed) counts.refused = counts.refused + 1;
  else {
    counts.allowed = counts.allowed + 1;
    if (exchange.code !== OK) counts.dryRunRefused = counts.dryRunRefused + 1;
  }
}

/** The order in which counts stand in shared memory. */
const NAMES = ["allowed", "refused", "dryRunRefused", "local", "remote", "remembered", "dark"] as const;

function keyOf(app: App, name: string): string {
  return `m:${name}:${app.policy.id}`;
}

/** Adds what this worker counted since the last time. */
export function flushCounts(): void {
  const { dict } = worker;
  for (const app of worker.everyone) {
    const { counts } = app;
    for (const name of NAMES) {
      if (counts[name] > 0) {
        dict.incr(keyOf(app, name), counts[name], 0);
        counts[name] = 0;
      }
    }
  }
}

export function sharedCount(app: App, name: (typeof NAMES)[number]): number {
  return (worker.dict.get(keyOf(app, name)) as number | undefined) ?? 0;
}
