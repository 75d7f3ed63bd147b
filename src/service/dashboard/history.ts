/** Samples of the last 15 minutes, so that the charts are not empty when somebody opens the dashboard. */
import type { Clock } from "../../shared/clock.js";
import type { NodeReport } from "../metrics/reports.js";
import type { OperationsContext } from "../operations/context.js";
import { ifAvailable } from "../operations/deadline.js";
import type { Activity } from "./activity.js";
import { createAppHistory } from "./app-history.js";
import type { History, HistoryPoint } from "./contract.js";
import { createMeter, type Reading } from "./meter.js";

const INTERVAL_MS = 5_000;
const KEPT = 180;
/** Apps in one message of a worker. */
const MOST_APPS = 2_000;

export interface HistoryOptions {
  context: Pick<OperationsContext, "reports" | "level" | "ask">;
  activity: Activity;
  clock: Clock;
  reading(workers: readonly NodeReport[]): Reading;
  /** Undefined while nobody watches: history costs no store calls. */
  l1Tokens(): number | undefined;
}

/** Costs two messages to each worker every 5 seconds; the one about apps is bounded. */
export function createHistory({ context, activity, clock, reading, l1Tokens }: HistoryOptions) {
  const points: HistoryPoint[] = [];
  const apps = createAppHistory();
  const measure = createMeter();
  let isClosed = false;
  let cancel = clock.after(0, sample);

  function sample(): void {
    void Promise.all([context.reports(), ifAvailable(context.ask({ kind: "activity", most: MOST_APPS }))])
      .then(([workers, active]) => {
        activity.absorb(active ?? []);
        apps.sample(activity.totals(), clock.now(), Math.round(Date.now() / 1000));
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
    /** `view`: the view of an app also gets the traffic of the app. */
    list(view: string): History {
      const history = { points, interval_seconds: INTERVAL_MS / 1000 };
      return view.startsWith("app/") ? { ...history, traffic: apps.of(view.slice(4)) } : history;
    },
    close(): void {
      isClosed = true;
      cancel();
    },
  };
}
