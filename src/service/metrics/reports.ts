/** Messages with counters: from workers to the primary, and from data planes to the service. Plain data. */
import type { LimiterStats } from "../../limiter/limiter.js";
import type { AppReport } from "./app-counters.js";
import type { SeriesList, Values } from "./series.js";

/** Upper bounds of the decision latency histogram, in seconds. */
export const latencyBoundsSeconds = [
  0.000001, 0.000005, 0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];

/** The limiter's stats, and what else is shown of a worker. */
export interface NodeReport extends LimiterStats {
  node: string;
  configVersion: string;
  /** Open client connections. */
  connections: number;
  /** A histogram of decision times with `latencyBoundsSeconds`. */
  latency: Values;
  heapUsedBytes: number;
  heapLimitBytes: number;
}

export interface MetricsReport {
  node: string;
  /** Identifies the process: a replaced worker has the same node name. */
  life: string;
  /** Number of this report within the process. */
  seq: number;
  /** Counters and histograms. Cumulative. */
  counters: SeriesList;
  /** Current values, dropped when the worker is gone. */
  gauges: SeriesList;
}

export type ReportRequest =
  | { kind: "report" }
  /** Only apps with requests are reported. */
  | { kind: "apps"; apps: string[] }
  | { kind: "metrics" };

/** The report for each kind of request. */
export interface Reports {
  report: NodeReport;
  apps: AppReport[];
  metrics: MetricsReport;
}

/** Counters in a sync message of a data plane. */
export interface PlaneReport {
  /** Gauges by name. */
  node: Record<string, number>;
  /** Number of the batch; 0: no batch. A repeated batch keeps its number and is counted once. */
  batch: number;
  /** Counters of apps since the last batch. `docs/API.md` documents the numbers. */
  apps: { app: string; numbers: Record<string, number[]> }[];
}

/** The app of a `PlaneReport` for requests without an app. */
export const NO_APP_REPORT = "*";
