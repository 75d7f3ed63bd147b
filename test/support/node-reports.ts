/** Sample reports of workers. */
import type { AppReport, RefusalReport } from "../../src/service/metrics/app-counters.js";
import { latencyBoundsSeconds } from "../../src/service/metrics/process-counters.js";
import type { NodeReport } from "../../src/service/metrics/reports.js";

const MEGABYTE = 1024 * 1024;

export function nodeReport(changes: Partial<NodeReport> = {}): NodeReport {
  return {
    node: "gw-1",
    configVersion: "v1",
    connections: 7,
    slots: 3,
    overload: { share: 0, causes: [] },
    level: 0,
    levels: [0],
    storeCalls: { calls: 0, errors: 0, timeouts: 0, latencyMs: 0 },
    emergency: false,
    liveNodes: 2,
    refused: 10,
    dryRunRefused: 2,
    syncs: 5,
    failedSyncs: 1,
    ...{ local: 90, remote: 4, cached: 6, withoutStore: 0, paidWithoutStore: 0 },
    latency: latencyBoundsSeconds.map(() => 0).concat(0, 0),
    refusals: { quota_exhausted: 10 },
    dryRunRefusals: { quota_exhausted: 2 },
    storeLatency: latencyBoundsSeconds.map(() => 0).concat(0, 0),
    storeErrors: 0,
    connectionRefusals: {},
    heapUsedBytes: 20 * MEGABYTE,
    heapLimitBytes: 100 * MEGABYTE,
    ...changes,
  };
}

export function refusalReport(changes: Partial<RefusalReport> = {}): RefusalReport {
  return {
    at: 1_750_000_000_000,
    node: "gw-1",
    code: "quota_exhausted",
    method: "PUT",
    cost: 600,
    balance: 3,
    remaining: 3,
    limit: 1000,
    retryAfterMs: 5970,
    source: "remote" as const,
    dryRun: false,
    ...changes,
  };
}

export function appReport(changes: Partial<AppReport> = {}): AppReport {
  return {
    node: "gw-1",
    app: "video",
    balance: 40,
    requests: 30,
    allowed: 28,
    refused: 2,
    dryRunRefused: 0,
    l3Hits: 27,
    refusals: { quota_exhausted: 2 },
    dryRunRefusals: {},
    costs: [],
    lastRefusals: [refusalReport()],
    ...changes,
  };
}
