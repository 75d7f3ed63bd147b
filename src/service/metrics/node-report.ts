/** What a gateway process tells of itself when it is asked. Plain data: it crosses from a worker to the primary. */
import type { DecisionSource } from "../../limiter/decision.js";
import type { MetricsReport } from "./metrics-report.js";

export interface NodeReport {
  node: string;
  configVersion: string;
  /** Open connections of clients. */
  connections: number;
  level: number;
  emergency: boolean;
  liveNodes: number;
  requests: number;
  allowed: number;
  refused: number;
  /** Let pass only because their apps are on a dry run. They count as allowed. */
  dryRunRefused: number;
  /** Decisions by where they were made. */
  sources: Record<DecisionSource, number>;
  syncs: number;
  failedSyncs: number;
  /** Of decisions: how many took at most `latencyBoundsSeconds[i]`, each counted once; the last count is of those above all. */
  latencyCounts: number[];
  latencySumSeconds: number;
  heapUsedBytes: number;
  heapLimitBytes: number;
}

/** The upper bounds of `NodeReport.latencyCounts`, in seconds. */
export const latencyBoundsSeconds = [
  0.000001, 0.000005, 0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];

export interface RefusalReport {
  /** Milliseconds since 1970. */
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
  /** Decided without asking the store. */
  l3Hits: number;
  refusals: Record<string, number>;
  /** The newest first; at most 20. */
  lastRefusals: RefusalReport[];
}

export type Question =
  | { kind: "report" }
  /** Of these apps; of those that were never used there is nothing to tell. */
  | { kind: "apps"; apps: string[] }
  | { kind: "metrics" };

/** What each kind of question is answered with. */
export interface Answers {
  report: NodeReport;
  apps: AppReport[];
  metrics: MetricsReport;
}
