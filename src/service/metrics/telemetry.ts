/** What one process learns of its own decisions: plain numbers, kept where requests pass and read when somebody asks. */
import { randomUUID } from "node:crypto";
import { getHeapStatistics } from "node:v8";
import type { MetricsOptions } from "../../config/options/service.js";
import { OK } from "../../core/codes.js";
import type { Decision, DecisionSource } from "../../limiter/decision.js";
import type { Limiter, LimiterObserver } from "../../limiter/limiter.js";
import type { StoreObserver } from "../../store/observed-store.js";
import {
  type AppSeries,
  type AppTally,
  appReport,
  exportSeries,
  methodNumbers,
  newSeries,
  newTally,
  noteRefusal,
} from "./app-numbers.js";
import type { ConnectionNumbers } from "./connection-numbers.js";
import {
  APP_DEVIATION,
  APP_HITS,
  APP_LOCAL,
  APP_MISSES,
  APP_REFUSALS,
  APP_REMOTE,
  APP_SETTLED,
  type Counters,
  METHOD_ALLOWED,
  METHOD_COST,
  METHOD_DRY_RUN,
  METHOD_REJECTED,
} from "./counters.js";
import { bucketOf, costBounds, deviationBounds, observe } from "./histogram.js";
import { appLabels, methodIndex, NO_APP, OTHER_APPS, reasonIndex } from "./labels.js";
import type { MetricsReport } from "./metrics-report.js";
import { createStoreNumbers, createSyncNumbers, type LoopLag, watchLoopLag } from "./node-numbers.js";
import { type AppReport, latencyBoundsSeconds, type NodeReport } from "./node-report.js";

export interface TelemetryOptions extends MetricsOptions {
  node: string;
  /** Milliseconds since 1970. */
  wallClock?: () => number;
}

/** What a process knows of itself and telemetry does not. */
export interface NodeFacts {
  configVersion: string;
  /** Open connections of clients. */
  connections: number;
}

type WatchedLimiter = Pick<Limiter, "stats" | "balances">;

export interface Telemetry {
  /** Once per request. `waited`: the decision was not made at once. */
  decided(decision: Decision, seconds: number, waited?: boolean): void;
  /** Once per admitted exchange that has ended. */
  settled(decision: Decision): void;
  /** To be told of what happens in the limiter. */
  readonly observer: LimiterObserver;
  /** To be told of the store's calls. */
  readonly storeObserver: StoreObserver;
  report(limiter: WatchedLimiter, facts: NodeFacts): NodeReport;
  /** Of these apps; those that were never used here are left out. */
  appReports(apps: readonly string[], limiter: WatchedLimiter): AppReport[];
  metrics(limiter: WatchedLimiter, connections?: ConnectionNumbers): MetricsReport;
  /** Numbers of apps that stay go on; those of apps that are gone are forgotten. */
  reconfigure(settings: MetricsOptions): void;
  close(): void;
}

const LOCAL = 0;
const REMOTE = 1;
const CACHED = 2;
const WITHOUT_STORE = 3;

/** Its place in the counts of sources. */
function sourceIndex(source: DecisionSource): number {
  switch (source) {
    case "local":
      return LOCAL;
    case "cached":
      return CACHED;
    case "remote":
      return REMOTE;
    case "without_store":
      return WITHOUT_STORE;
  }
}

export function createTelemetry(options: TelemetryOptions): Telemetry {
  const { node, wallClock = Date.now } = options;
  const life = randomUUID();
  const storeNumbers = createStoreNumbers();
  const syncNumbers = createSyncNumbers();
  const sources = new Float64Array(4);
  const latency = new Float64Array(latencyBoundsSeconds.length + 1);
  const totals = { refused: 0, dryRunRefused: 0, latencySumSeconds: 0 };
  /** Requests without an app, and those of apps that are not configured any more. */
  const nobody = newTally("", NO_APP);
  const leftover = newTally("", OTHER_APPS);
  let tallies = new Map<string, AppTally>();
  let series = new Map<string, AppSeries>();
  let enabled = false;
  let lag: LoopLag | undefined;
  let seq = 0;
  reconfigure(options);

  function reconfigure(settings: MetricsOptions): void {
    const labels = appLabels(settings.apps, settings.appLabels);
    const before = tallies;
    tallies = new Map();
    for (const [app, label] of labels) {
      const tally = before.get(app) ?? newTally(app, label);
      tally.label = label;
      tallies.set(app, tally);
    }
    enabled = settings.enabled;
    const kept = new Set([NO_APP, OTHER_APPS, ...labels.values()]);
    series = new Map(enabled ? [...series].filter(([label]) => kept.has(label)) : []);
    for (const tally of [...tallies.values(), nobody, leftover]) tally.series = undefined;
    if (enabled) {
      lag ??= watchLoopLag();
    } else {
      lag?.close();
      lag = undefined;
    }
  }

  function tallyOf(app: string): AppTally {
    return tallies.get(app) ?? (app === "" ? nobody : leftover);
  }

  /** Undefined where metrics are off. */
  function seriesOf(tally: AppTally): AppSeries | undefined {
    if (tally.series !== undefined || !enabled) return tally.series;
    let own = series.get(tally.label);
    if (own === undefined) {
      own = newSeries();
      series.set(tally.label, own);
    }
    tally.series = own;
    return own;
  }

  function decided(decision: Decision, seconds: number, waited = false): void {
    const source = sourceIndex(decision.source);
    const bucket = bucketOf(latencyBoundsSeconds, seconds);
    sources[source]!++;
    latency[bucket]!++;
    totals.latencySumSeconds += seconds;
    const tally = tallyOf(decision.app);
    const hit = source === LOCAL || source === CACHED;
    if (hit) tally.l3Hits++;
    let status = METHOD_ALLOWED;
    if (decision.code === OK) {
      tally.allowed++;
    } else {
      status = refused(tally, decision);
    }

    const own = seriesOf(tally);
    if (own === undefined) return;
    const { numbers } = own;
    const at = waited || source === REMOTE ? APP_REMOTE : APP_LOCAL;
    numbers[at]! += seconds;
    numbers[at + 1 + bucket]!++;
    numbers[hit ? APP_HITS : APP_MISSES]!++;
    if (status === METHOD_REJECTED) numbers[APP_REFUSALS + reasonIndex(decision.code)]!++;
    const ofMethod = methodNumbers(own, methodIndex(decision.method));
    ofMethod[status]!++;
    observe(ofMethod, METHOD_COST, costBounds, decision.cost);
  }

  function refused(tally: AppTally, decision: Decision): number {
    noteRefusal(tally, decision, wallClock(), node);
    if (decision.allowed) {
      totals.dryRunRefused++;
      tally.dryRunRefused++;
      return METHOD_DRY_RUN;
    }
    totals.refused++;
    tally.refused++;
    return METHOD_REJECTED;
  }

  function settled(decision: Decision): void {
    if (!enabled) return;
    const own = seriesOf(tallyOf(decision.app));
    if (own !== undefined) own.numbers[APP_SETTLED]!++;
  }

  function balancesByLabel(limiter: WatchedLimiter): [string, number][] {
    const sums = new Map<string, number>();
    for (const { app, balance } of limiter.balances()) {
      const { label } = tallyOf(app);
      // An app that was never used has no lease, and no line.
      if (balance === 0 && !series.has(label)) continue;
      sums.set(label, (sums.get(label) ?? 0) + balance);
    }
    return [...sums];
  }

  return {
    decided,
    settled,
    reconfigure,
    observer: {
      deviated(decision, _actualCost, ratio) {
        const own = seriesOf(tallyOf(decision.app));
        if (own !== undefined) observe(own.numbers, APP_DEVIATION, deviationBounds, ratio);
      },
      synced: syncNumbers.synced,
    },
    storeObserver: storeNumbers,

    report(limiter, { configVersion, connections }) {
      const { level, emergency, liveNodes, syncs, failedSyncs } = limiter.stats();
      const requests = sources.reduce((sum, count) => sum + count, 0);
      return {
        ...{ node, configVersion, connections, level, emergency, liveNodes, syncs, failedSyncs, requests },
        allowed: requests - totals.refused,
        refused: totals.refused,
        dryRunRefused: totals.dryRunRefused,
        sources: {
          ...{ local: sources[LOCAL]!, remote: sources[REMOTE]! },
          ...{ cached: sources[CACHED]!, without_store: sources[WITHOUT_STORE]! },
        },
        latencyCounts: Array.from(latency),
        latencySumSeconds: totals.latencySumSeconds,
        heapUsedBytes: process.memoryUsage().heapUsed,
        heapLimitBytes: getHeapStatistics().heap_size_limit,
      };
    },

    appReports(apps, limiter) {
      const balances = new Map(limiter.balances().map(({ app, balance }) => [app, balance]));
      return apps.flatMap((app) => {
        const tally = tallies.get(app);
        if (tally === undefined || tally.allowed + tally.refused + tally.dryRunRefused === 0) return [];
        return [appReport(tally, node, balances.get(app) ?? 0)];
      });
    },

    metrics(limiter, connections) {
      const counters: Counters = {};
      for (const [label, own] of series) exportSeries(label, own, counters);
      if (enabled) {
        storeNumbers.exportTo(counters);
        syncNumbers.exportTo(counters);
        connections?.tally.exportTo(counters);
      }
      const delays = lag?.take() ?? { meanSeconds: 0, p99Seconds: 0 };
      return {
        ...{ node, life, seq: ++seq, counters },
        now: {
          level: limiter.stats().level,
          ...{ lagSeconds: delays.meanSeconds, lagP99Seconds: delays.p99Seconds },
          balances: enabled ? balancesByLabel(limiter) : [],
          ...{ pods: connections?.pods ?? [], proxies: connections?.proxies ?? [] },
        },
      };
    },

    close() {
      lag?.close();
      lag = undefined;
    },
  };
}
