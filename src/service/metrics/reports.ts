/** Messages with counters: from workers to the primary, and from data planes to the service. Plain data. */
import type { AppReport } from "./app-counters.js";
import type { LimitReport, NodeMetrics } from "./node-metrics.js";
import type { TrafficSample } from "./traffic-sample.js";

export type NodeReport = ReturnType<NodeMetrics["report"]>;
export type MetricsReport = ReturnType<NodeMetrics["metrics"]>;

export type ActivityReport = ReturnType<NodeMetrics["activity"]>;

export type ReportRequest =
  | { kind: "report" }
  /** Apps with requests since the last request of this kind, at most `most`, those with the most new requests first. */
  | { kind: "activity"; most?: number }
  /** Only apps with requests are reported. */
  | { kind: "apps"; apps: string[] }
  /** Requests at each of `limits`. */
  | { kind: "limits" }
  | { kind: "metrics" }
  /** Recent requests for simulations. */
  | { kind: "sample" };

/** The report for each kind of request. */
export interface Reports {
  report: NodeReport;
  activity: ActivityReport;
  apps: AppReport[];
  limits: LimitReport[];
  metrics: MetricsReport;
  sample: TrafficSample;
}

/** Counters in a sync message of a data plane. */
export interface PlaneReport {
  /** Gauges by name. */
  node: Record<string, number>;
  /** Open connections by pod; undefined if they are not reported this time. */
  pods?: { route: string; upstream: string; pod: string; active: number }[] | undefined;
  /** Number of the batch; 0: no batch. A repeated batch keeps its number and is counted once. */
  batch: number;
  /** Counters of apps since the last batch. `docs/API.md` documents the numbers. */
  apps: { app: string; numbers: Record<string, number[]> }[];
  /** Some of the refusals since the last batch, with times on the data plane's clock, see `node.clock`. */
  refusals?: PlaneRefusal[];
}

export interface PlaneRefusal {
  app: string;
  at: number;
  code: string;
  method: string;
  cost: number;
  balance: number;
  remaining: number;
  limit: number;
  retry_after_ms: number;
  source: string;
  dry_run: boolean;
  /** The limit of `limits` that refused the request. */
  limit_name?: string | undefined;
}

/** The app of a `PlaneReport` for requests without an app. */
export const NO_APP_REPORT = "*";
