/** Sums the counters of all workers. A sum never decreases: what a crashed worker last reported stays in it. */
import type { MetricsReport } from "./reports.js";
import { createSeries, type SeriesList } from "./series.js";

export type WorkerTotals = ReturnType<typeof createWorkerTotals>;

export function createWorkerTotals() {
  /** By node. */
  const newest = new Map<string, MetricsReport>();
  const ended = createSeries();

  return {
    add(reports: readonly MetricsReport[]): void {
      for (const report of reports) {
        const before = newest.get(report.node);
        // Two concurrent scrapes: the older report may arrive last.
        if (before?.life === report.life && before.seq >= report.seq) continue;
        if (before !== undefined && before.life !== report.life) ended.merge(before.counters);
        newest.set(report.node, report);
      }
    },
    /**
     * The counters of all processes, past and present, to be added up. A worker that does not reply counts with its last
     * report. What ended workers counted for apps without one of these labels is dropped for good.
     */
    lists(labels: ReadonlySet<string>): SeriesList[] {
      ended.retainApps(labels);
      return [ended.list(), ...Array.from(newest.values(), ({ counters }) => counters)];
    },
  };
}
