/** What all workers have counted, through crashes: a worker that dies takes its process along, but no sum ever falls. */
import { addCounters } from "./counters.js";
import type { MetricsReport } from "./metrics-report.js";

export interface WorkerLives {
  /** The answers of those that answered, in any order. */
  heard(reports: readonly MetricsReport[]): void;
  /**
   * Sums over all lives. Of a worker that does not answer just now, what it last said; of one that was replaced, what
   * it last said before. What nobody wants any more is forgotten.
   */
  totals(isWanted: (key: string) => boolean): Map<string, number[]>;
}

export function createWorkerLives(): WorkerLives {
  /** By node. */
  const newest = new Map<string, MetricsReport>();
  let ended = new Map<string, number[]>();

  return {
    heard(reports) {
      for (const report of reports) {
        const before = newest.get(report.node);
        if (before?.life === report.life) {
          // Two scrapes at once: the older answer may come last.
          if (before.seq < report.seq) newest.set(report.node, report);
          continue;
        }
        if (before !== undefined) addCounters(ended, before.counters, () => true);
        newest.set(report.node, report);
      }
    },
    totals(isWanted) {
      ended = new Map([...ended].filter(([key]) => isWanted(key)));
      const sum = new Map([...ended].map(([key, numbers]) => [key, [...numbers]]));
      for (const { counters } of newest.values()) addCounters(sum, counters, isWanted);
      return sum;
    },
  };
}
