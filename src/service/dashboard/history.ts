/** Samples of the last 15 minutes, so that the charts are not empty when somebody opens the dashboard. */
import type { Clock } from "../../shared/clock.js";
import type { NodeReport } from "../metrics/reports.js";
import type { OperationsContext } from "../operations/context.js";
import type { History, HistoryPoint } from "./contract.js";
import { createMeter, type Reading } from "./meter.js";

const INTERVAL_MS = 5_000;
const KEPT = 180;

export interface HistoryOptions {
  context: Pick<OperationsContext, "reports" | "level">;
  clock: Clock;
  reading(workers: readonly NodeReport[]): Reading;
  /** Undefined while nobody watches: history costs no store calls. */
  l1Tokens(): number | undefined;
}

/** Costs one small message to each worker every 5 seconds. */
export function createHistory({ context, clock, reading, l1Tokens }: HistoryOptions) {
  const points: HistoryPoint[] = [];
  const measure = createMeter();
  let isClosed = false;
  let cancel = clock.after(0, sample);

  function sample(): void {
    void context
      .reports()
      .then((workers) => {
        const rates = measure(reading(workers));
        if (rates === undefined) return;
        const { seconds: _, ...others } = rates;
        points.push({
          at: Math.round(Date.now() / 1000),
          ...others,
          level: context.level(workers),
          connections: workers.reduce((sum, { connections }) => sum + connections, 0),
          l1_tokens: l1Tokens() ?? null,
        });
        if (points.length > KEPT) points.shift();
      })
      .finally(() => {
        if (!isClosed) cancel = clock.after(INTERVAL_MS, sample);
      });
  }

  return {
    list: (): History => ({ points, interval_seconds: INTERVAL_MS / 1000 }),
    close(): void {
      isClosed = true;
      cancel();
    },
  };
}
