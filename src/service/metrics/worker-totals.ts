/** Sums the counters of all workers. A sum never decreases: what a crashed worker last reported stays in it. */
import { addCounters } from "./counters.js";
import type { MetricsReport } from "./reports.js";

export interface WorkerTotals {
  add(reports: readonly MetricsReport[]): void;
  /**
   * Sums over all processes, past and present. A worker that does not reply counts with its last report. Counters that are
   * not wanted are dropped for good.
   */
  totals(isWanted: (key: string) => boolean): Map<string, number[]>;
}

export function createWorkerTotals(): WorkerTotals {
  /** By node. */
  const newest = new Map<string, MetricsReport>();
  let ended = new Map<string, number[]>();

  return {
    add(reports) {
      for (const report of reports) {
        const before = newest.get(report.node);
        if (before?.life === report.life) {
          // Two concurrent scrapes: the older report may arrive last.
          if (before.seq < report.seq) newest.set(report.node, report);
          continue;
        }
        if (before !== undefined) addCounters(ended, before.counters, () => true);
        newest.set(report.node, report);
      }
    },
    totals(isWanted) {
      ended = new Map([...ended].filter(([key]) => isWanted(key)));
      const sum = new Map([...ended].map(([key, counters]) => [key, [...counters]]));
      for (const { counters } of newest.values()) addCounters(sum, counters, isWanted);
      return sum;
    },
  };
}
