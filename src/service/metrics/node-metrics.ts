/** The metrics of one process: counts its decisions and reports them to the primary on request. */
import { randomUUID } from "node:crypto";
import { getHeapStatistics } from "node:v8";
import type { MetricsOptions } from "../../config/options/service.js";
import { OK } from "../../core/codes.js";
import type { Decision, DecisionSource } from "../../limiter/decision.js";
import type { Limiter, LimiterObserver } from "../../limiter/limiter.js";
import type { StoreObserver } from "../../store/observed-store.js";
import {
  type AppCounters,
  appReport,
  exportLabel,
  type LabelCounters,
  methodCounters,
  newAppCounters,
  newLabelCounters,
  recordRefusal,
} from "./app-counters.js";
import {
  APP_DEVIATION,
  APP_HITS,
  APP_LOCAL,
  APP_MISSES,
  APP_REFUSALS,
  APP_REMOTE,
  APP_SETTLED,
  bucketOf,
  type Counters,
  costBounds,
  deviationBounds,
  METHOD_ALLOWED,
  METHOD_COST,
  METHOD_DRY_RUN,
  METHOD_REJECTED,
  observe,
} from "./counters.js";
import { appLabels, methodIndex, NO_APP, OTHER_APPS, reasonIndex } from "./labels.js";
import {
  type ConnectionMetrics,
  createStoreCounters,
  createSyncCounters,
  type LoopLag,
  watchLoopLag,
} from "./process-counters.js";
import { type AppReport, latencyBoundsSeconds, type MetricsReport, type NodeReport } from "./reports.js";

export interface NodeMetricsOptions extends MetricsOptions {
  node: string;
  /** Unix time in milliseconds. */
  wallClock?: () => number;
}

type LimiterState = Pick<Limiter, "stats" | "balances">;

export interface NodeMetrics {
  /** Called once per request. `waited`: the decision was not immediate. */
  decided(decision: Decision, seconds: number, waited?: boolean): void;
  /** Called once per admitted exchange when it ends. */
  settled(decision: Decision): void;
  readonly limiterObserver: Required<Pick<LimiterObserver, "deviated" | "synced">>;
  readonly storeObserver: StoreObserver;
  /** @param facts the version of the configuration, and the number of open client connections */
  report(limiter: LimiterState, facts: Pick<NodeReport, "configVersion" | "connections">): NodeReport;
  /** Apps without requests are left out. */
  appReports(apps: readonly string[], limiter: LimiterState): AppReport[];
  metrics(limiter: LimiterState, connections?: ConnectionMetrics): MetricsReport;
  /** Keeps the counters of apps that remain and drops those of removed apps. */
  reconfigure(options: MetricsOptions): void;
  close(): void;
}

export function createNodeMetrics(options: NodeMetricsOptions): NodeMetrics {
  const { node, wallClock = Date.now } = options;
  const life = randomUUID();
  const storeCounters = createStoreCounters();
  const syncCounters = createSyncCounters();
  const sources: Record<DecisionSource, number> = { local: 0, remote: 0, cached: 0, without_store: 0 };
  const latency = new Float64Array(latencyBoundsSeconds.length + 1);
  const totals = { requests: 0, refused: 0, dryRunRefused: 0, latencySumSeconds: 0 };
  /** Requests without an app, and of apps that are no longer configured. */
  const noApp = newAppCounters("", NO_APP);
  const removedApps = newAppCounters("", OTHER_APPS);
  let byApp = new Map<string, AppCounters>();
  let byLabel = new Map<string, LabelCounters>();
  let enabled = false;
  let lag: LoopLag | undefined;
  let seq = 0;
  reconfigure(options);

  function reconfigure(changed: MetricsOptions): void {
    const labels = appLabels(changed.apps, changed.appLabels);
    const before = byApp;
    byApp = new Map();
    for (const [app, label] of labels) {
      const counters = before.get(app) ?? newAppCounters(app, label);
      counters.label = label;
      byApp.set(app, counters);
    }
    enabled = changed.enabled;
    const kept = new Set([NO_APP, OTHER_APPS, ...labels.values()]);
    byLabel = new Map(enabled ? [...byLabel].filter(([label]) => kept.has(label)) : []);
    for (const counters of [...byApp.values(), noApp, removedApps]) counters.metrics = undefined;
    if (enabled) {
      lag ??= watchLoopLag();
    } else {
      lag?.close();
      lag = undefined;
    }
  }

  function countersOf(app: string): AppCounters {
    return byApp.get(app) ?? (app === "" ? noApp : removedApps);
  }

  /** Undefined while metrics are disabled. */
  function metricsOf(counters: AppCounters): LabelCounters | undefined {
    if (counters.metrics !== undefined || !enabled) return counters.metrics;
    let own = byLabel.get(counters.label);
    if (own === undefined) {
      own = newLabelCounters();
      byLabel.set(counters.label, own);
    }
    counters.metrics = own;
    return own;
  }

  function decided(decision: Decision, seconds: number, waited = false): void {
    const { source } = decision;
    const bucket = bucketOf(latencyBoundsSeconds, seconds);
    sources[source]++;
    latency[bucket]!++;
    totals.requests++;
    totals.latencySumSeconds += seconds;
    const app = countersOf(decision.app);
    const hit = source === "local" || source === "cached";
    if (hit) app.l3Hits++;
    let status = METHOD_ALLOWED;
    if (decision.code === OK) app.allowed++;
    else status = refused(app, decision);

    const own = metricsOf(app);
    if (own === undefined) return;
    const { counters } = own;
    const at = waited || source === "remote" ? APP_REMOTE : APP_LOCAL;
    counters[at]! += seconds;
    counters[at + 1 + bucket]!++;
    counters[hit ? APP_HITS : APP_MISSES]!++;
    if (status === METHOD_REJECTED) counters[APP_REFUSALS + (reasonIndex(decision.code) ?? 0)]!++;
    const ofMethod = methodCounters(own, methodIndex(decision.method));
    ofMethod[status]!++;
    observe(ofMethod, METHOD_COST, costBounds, decision.cost);
  }

  function refused(app: AppCounters, decision: Decision): number {
    recordRefusal(app, decision, wallClock(), node);
    if (decision.allowed) {
      totals.dryRunRefused++;
      app.dryRunRefused++;
      return METHOD_DRY_RUN;
    }
    totals.refused++;
    app.refused++;
    return METHOD_REJECTED;
  }

  function balancesByLabel(limiter: LimiterState): [string, number][] {
    const sums = new Map<string, number>();
    for (const { app, balance } of limiter.balances()) {
      const { label } = countersOf(app);
      // An app that was never used has no lease and no sample.
      if (balance === 0 && !byLabel.has(label)) continue;
      sums.set(label, (sums.get(label) ?? 0) + balance);
    }
    return [...sums];
  }

  return {
    decided,
    settled(decision) {
      const own = metricsOf(countersOf(decision.app));
      if (own !== undefined) own.counters[APP_SETTLED]!++;
    },
    reconfigure,
    limiterObserver: {
      deviated(decision, _actualCost, ratio) {
        const own = metricsOf(countersOf(decision.app));
        if (own !== undefined) observe(own.counters, APP_DEVIATION, deviationBounds, ratio);
      },
      synced: syncCounters.synced,
    },
    storeObserver: storeCounters,

    report(limiter, { configVersion, connections }) {
      const { level, emergency, liveNodes, syncs, failedSyncs } = limiter.stats();
      return {
        node,
        configVersion,
        connections,
        level,
        emergency,
        liveNodes,
        syncs,
        failedSyncs,
        requests: totals.requests,
        allowed: totals.requests - totals.refused,
        refused: totals.refused,
        dryRunRefused: totals.dryRunRefused,
        sources: { ...sources },
        latencyCounts: Array.from(latency),
        latencySumSeconds: totals.latencySumSeconds,
        heapUsedBytes: process.memoryUsage().heapUsed,
        heapLimitBytes: getHeapStatistics().heap_size_limit,
      };
    },

    appReports(apps, limiter) {
      const balances = new Map(limiter.balances().map(({ app, balance }) => [app, balance]));
      return apps.flatMap((app) => {
        const counters = byApp.get(app);
        if (counters === undefined || counters.allowed + counters.refused + counters.dryRunRefused === 0) return [];
        return [appReport(counters, node, balances.get(app) ?? 0)];
      });
    },

    metrics(limiter, connections) {
      const counters: Counters = {};
      for (const [label, own] of byLabel) exportLabel(label, own, counters);
      if (enabled) {
        storeCounters.exportTo(counters);
        syncCounters.exportTo(counters);
        connections?.counters.exportTo(counters);
      }
      const delays = lag?.take() ?? { meanSeconds: 0, p99Seconds: 0 };
      return {
        node,
        life,
        seq: ++seq,
        counters,
        gauges: {
          level: limiter.stats().level,
          lagSeconds: delays.meanSeconds,
          lagP99Seconds: delays.p99Seconds,
          balances: enabled ? balancesByLabel(limiter) : [],
          pods: connections?.pods ?? [],
          proxies: connections?.proxies ?? [],
        },
      };
    },

    close() {
      lag?.close();
      lag = undefined;
    },
  };
}
