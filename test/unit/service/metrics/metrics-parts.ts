/** Decisions, a limiter stub and a service for the tests of metrics. */
import type { BucketLimits } from "../../../../src/core/app-limits.js";
import type { Decision, LimiterStats } from "../../../../src/limiter/limiter.js";
import {
  createServiceMetrics,
  type ServiceMetrics,
  type ServiceMetricsOptions,
} from "../../../../src/service/metrics/service-metrics.js";

export function decision(of: Partial<Decision> = {}): Decision {
  return {
    ...{ allowed: true, code: "ok", dryRun: false, app: "video", method: "GET", cost: 2, balance: 10, remaining: 50 },
    ...{ limit: 100, rate: 10, retryAfterMs: 0, source: "local" as const },
    ...of,
  };
}

export const refusal = (of: Partial<Decision> = {}) =>
  decision({ allowed: false, code: "quota_exhausted", source: "cached", retryAfterMs: 500, ...of });

export function quietLimiter(balances: Record<string, number> = {}, level = 0) {
  const stats: LimiterStats = {
    ...{
      local: 0,
      remote: 0,
      cached: 0,
      withoutStore: 0,
      refused: 0,
      dryRunRefused: 0,
      syncs: 7,
      failedSyncs: 1,
      level,
    },
    ...{
      levels: [level],
      storeCalls: { calls: 0, errors: 0, timeouts: 0, latencyMs: 0 },
      emergency: false,
      liveNodes: 3,
    },
  };
  return {
    stats: () => stats,
    balances: () => Object.entries(balances).map(([app, balance]) => ({ app, balance, remaining: 0, refusedCode: "" })),
  };
}

export const policy = (id: string): BucketLimits => ({ id, guaranteed: 10, burst: 100, priority: 1, borrow: false });

/** A service with an empty store, unless the options say otherwise. */
export function serviceMetrics(
  options: Partial<ServiceMetricsOptions> & { ids?: string[]; labels?: number } = {},
): ServiceMetrics {
  const { ids = ["video"], labels = 1000, ...more } = options;
  const stats = { rounds: 4, reconciledApps: 9, corrections: 2, recoveredTokens: 30 };
  const gone = () => Promise.reject(new Error("there is no store"));
  return createServiceMetrics({
    ...{ node: "gw", version: "1.2.3", clusterId: "cluster-01" },
    apps: () => ids.map(policy),
    metrics: () => ({ enabled: true, apps: ids, limits: [], appLabels: labels }),
    config: { version: () => "abc", loadedAtMs: () => 1_700_000_000_000 },
    coordinator: {
      stats: () => stats,
      emergency: () => ({
        active: true,
        source: "operator",
        sinceMs: 0,
        leftMs: 0,
        burstsStopped: false,
        reason: "",
        operator: "",
      }),
    },
    overload: () => ({ share: 0, causes: [] }),
    quota: { inspect: gone, nodes: gone, cluster: gone, shards: [], states: gone },
    slots: async () => [],
    ...more,
  });
}
