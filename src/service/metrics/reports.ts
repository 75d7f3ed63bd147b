/** Messages with counters: from workers to the primary, and from data planes to the service. Plain data. */
import type { DecisionSource } from "../../limiter/decision.js";

/** Upper bounds of the decision latency histogram, in seconds. */
export const latencyBoundsSeconds = [
  0.000001, 0.000005, 0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];

export interface NodeReport {
  node: string;
  configVersion: string;
  /** Open client connections. */
  connections: number;
  level: number;
  emergency: boolean;
  liveNodes: number;
  requests: number;
  allowed: number;
  refused: number;
  /** Admitted only because the app is on a dry run. Included in `allowed`. */
  dryRunRefused: number;
  /** Decisions by source. */
  sources: Record<DecisionSource, number>;
  syncs: number;
  failedSyncs: number;
  /** Decisions per bucket of `latencyBoundsSeconds`, not cumulative; the last is for slower ones. */
  latencyCounts: number[];
  latencySumSeconds: number;
  heapUsedBytes: number;
  heapLimitBytes: number;
}

export interface RefusalReport {
  /** Unix time in milliseconds. */
  at: number;
  node: string;
  code: string;
  method: string;
  cost: number;
  balance: number;
  remaining: number;
  limit: number;
  retryAfterMs: number;
  source: DecisionSource;
  dryRun: boolean;
}

export interface AppReport {
  node: string;
  app: string;
  /** Tokens on this node's lease. */
  balance: number;
  requests: number;
  allowed: number;
  refused: number;
  dryRunRefused: number;
  /** Decided without a sync. */
  l3Hits: number;
  refusals: Record<string, number>;
  /** Newest first, at most 20. */
  lastRefusals: RefusalReport[];
}

export interface MetricsReport {
  node: string;
  /** Identifies the process: a replaced worker has the same node name. */
  life: string;
  /** Number of this report within the process. */
  seq: number;
  /** Cumulative counters; `counters.ts` defines keys and layout. */
  counters: Record<string, number[]>;
  gauges: NodeGauges;
}

/** Current values, dropped when the worker is gone. */
export interface NodeGauges {
  level: number;
  lagSeconds: number;
  lagP99Seconds: number;
  /** Tokens on leases, by app label. */
  balances: [label: string, tokens: number][];
  pods: PodGauge[];
  proxies: ProxyGauge[];
}

export interface PodGauge {
  upstream: string;
  pod: string;
  active: number;
  /** For all proxies together. */
  limit: number;
}

export interface ProxyGauge {
  proxy: string;
  active: number;
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
  apps: PlaneAppReport[];
}

/** Counters of one app since the last batch. `docs/API.md` documents the lists. */
export interface PlaneAppReport {
  /** `*` for requests without an app. */
  app: string;
  lists: Record<string, number[]>;
}

/** The app of `PlaneAppReport` for requests without an app. */
export const NO_APP_REPORT = "*";
