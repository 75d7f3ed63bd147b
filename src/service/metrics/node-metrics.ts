/** The metrics of one process: counts its decisions and reports them to the primary on request. */
import { randomUUID } from "node:crypto";
import { getHeapStatistics } from "node:v8";
import type { MetricsOptions } from "../../config/options/service.js";
import { OK } from "../../core/codes.js";
import type { Decision, LimitedTransfer, Limiter } from "../../limiter/limiter.js";
import type { LimitDecision } from "../../limiter/limiter-contract.js";
import type { OverloadState } from "../../shared/overload.js";
import {
  type AppCounters,
  type AppReport,
  appReport,
  countRefusal,
  LabelSeries,
  newAppCounters,
  type RefusalReport,
} from "./app-counters.js";
import { appLabels, NO_APP, OTHER_APPS } from "./labels.js";
import {
  addCertificates,
  createProcessCounters,
  type LoopLag,
  latencyBoundsSeconds,
  newLatency,
  watchLoopLag,
} from "./process-counters.js";
import { addCount, keepRefusal, type RefusalCounts, reasonKey } from "./refusal-counts.js";
import { createSeries, observe, type SeriesList, type Values } from "./series.js";
import { createTrafficSample } from "./traffic-sample.js";

export interface NodeMetricsOptions extends MetricsOptions {
  node: string;
  overload?: (() => OverloadState) | undefined;
  /** Unix time in milliseconds. */
  wallClock?: () => number;
}

type LimiterState = Pick<Limiter, "stats" | "balances">;

/** Open connections and certificates. */
export interface ProcessGauges {
  /** By TLS section: expiry in Unix milliseconds. */
  certificates?: ReadonlyMap<string, number>;
  /** Configured pods, and removed ones that still have connections. The limit is for all proxies together. */
  pods: { route: string; upstream: string; pod: string; active: number; limit: number }[];
  /** Holders of connections through this process. */
  proxies: { proxy: string; active: number }[];
}

/** Requests at one of `limits`, by status. */
type LimitSeries = Record<"allowed" | "rejected" | "dry_run_rejected", Values>;

function statusOf({ code, allowed }: Pick<Decision, "code" | "allowed">): keyof LimitSeries {
  if (code === OK) return "allowed";
  return allowed ? "dry_run_rejected" : "rejected";
}

export type LimitReport = [name: string, allowed: number, rejected: number, dryRunRejected: number];

export type NodeMetrics = ReturnType<typeof createNodeMetrics>;

export function createNodeMetrics(options: NodeMetricsOptions) {
  const { node, wallClock = Date.now, overload = () => ({ share: 0, causes: [] }) } = options;
  const life: string = randomUUID();
  const series = createSeries();
  /** A histogram. */
  const latency = newLatency();
  /** Of all apps, by reason. */
  const refusals: RefusalCounts = {};
  const dryRunRefusals: RefusalCounts = {};
  const byLimit = new Map<string, LimitSeries>();
  /** Of all apps. Newest last. */
  const recentRefusals: (RefusalReport & { app: string })[] = [];
  /** Requests per app at the last `activity`. */
  const reported = new Map<string, number>();
  const processCounters = createProcessCounters(series);
  const sample = createTrafficSample();
  /** Requests without an app, and of apps that are no longer configured. */
  const noApp = newAppCounters(NO_APP);
  const removedApps = newAppCounters(OTHER_APPS);
  let byApp = new Map<string, AppCounters>();
  let byLabel = new Map<string, LabelSeries>();
  let enabled = false;
  let lag: LoopLag | undefined;
  let seq = 0;
  reconfigure(options);

  /** Keeps the counters of apps that remain and drops those of removed apps. */
  function reconfigure(changed: MetricsOptions): void {
    const labels = appLabels(changed.apps, changed.appLabels);
    const before = byApp;
    byApp = new Map();
    for (const [app, label] of labels) {
      const counters = before.get(app) ?? newAppCounters(label);
      counters.label = label;
      byApp.set(app, counters);
    }
    for (const name of byLimit.keys()) if (!changed.limits.includes(name)) byLimit.delete(name);
    sample.clear();
    for (const app of reported.keys()) if (!byApp.has(app)) reported.delete(app);
    enabled = changed.enabled;
    const kept = new Set(enabled ? [NO_APP, OTHER_APPS, ...labels.values()] : []);
    series.retainApps(kept);
    byLabel = new Map([...byLabel].filter(([label]) => kept.has(label)));
    for (const counters of [...byApp.values(), noApp, removedApps]) counters.series = undefined;
    if (enabled) lag ??= watchLoopLag();
    else close();
  }

  function close(): void {
    lag?.close();
    lag = undefined;
  }

  function countersOf(app: string): AppCounters {
    return byApp.get(app) ?? (app === "" ? noApp : removedApps);
  }

  function refused(counters: AppCounters, decision: Decision): void {
    const refusal = countRefusal(counters, decision, wallClock(), node);
    addCount(refusal.dryRun ? dryRunRefusals : refusals, reasonKey(refusal.code, refusal.limitName));
    keepRefusal(recentRefusals, { app: decision.app, ...refusal });
  }

  /** Undefined while metrics are disabled. */
  function seriesOf(counters: AppCounters): LabelSeries | undefined {
    if (counters.series !== undefined || !enabled) return counters.series;
    const { label } = counters;
    counters.series = byLabel.get(label) ?? new LabelSeries(series, label);
    byLabel.set(label, counters.series);
    return counters.series;
  }

  /** Also while metrics are disabled: the admin API shows them. */
  function countLimit(limit: LimitDecision): void {
    const { name } = limit;
    let own = byLimit.get(name);
    if (own === undefined) {
      const of = (status: keyof LimitSeries) => series.of("ratelimit_limit_requests_total", name, status);
      own = { allowed: of("allowed"), rejected: of("rejected"), dry_run_rejected: of("dry_run_rejected") };
      byLimit.set(name, own);
    }
    own[statusOf(limit)][0]++;
  }

  function gauges(limiter: LimiterState, { pods, proxies, certificates }: ProcessGauges) {
    const all = createSeries();
    all.add("ratelimit_degradation_level", [node], limiter.stats().level);
    all.add("ratelimit_overload_refused_share", [node], overload().share);
    lag?.addTo(all, node);
    const held = new Map<string, number>();
    for (const { app, balance } of limiter.balances()) {
      const { label } = countersOf(app);
      // An app that was never used has no lease and no sample.
      if (balance !== 0 || byLabel.has(label)) held.set(label, (held.get(label) ?? 0) + balance);
    }
    for (const [label, tokens] of held) {
      all.add("ratelimit_l3_tokens_local", [label, node], tokens);
      const ratio = byLabel.get(label)?.hitRatio();
      if (ratio !== undefined) all.add("ratelimit_l3_cache_hit_ratio", [label, node], ratio);
    }
    for (const { route, upstream, pod, active, limit } of pods) {
      all.add("websocket_pod_connections", [route, upstream, pod], active);
      all.add("websocket_pod_limit", [route, upstream, pod], limit);
    }
    for (const { proxy, active } of proxies) all.add("websocket_proxy_instance", [proxy], active);
    addCertificates(all, certificates);
    return all.list();
  }

  return {
    ...processCounters,
    /** Called once per request. `waited`: the decision was not immediate. */
    decided(decision: Decision, seconds: number, waited = false): void {
      const { source } = decision;
      observe(latency, latencyBoundsSeconds, seconds);
      const app = countersOf(decision.app);
      const isHit = source === "local" || source === "cached";
      if (isHit) app.l3Hits++;
      if (byApp.has(decision.app)) sample.add(decision.app, decision.method, decision.cost, wallClock());
      if (decision.code === OK) app.allowed++;
      else refused(app, decision);
      seriesOf(app)?.decided(decision, seconds, waited || source === "remote", isHit);
      if (decision.limits !== undefined) for (const limit of decision.limits) countLimit(limit);
    },
    /** Called once per admitted exchange when it ends. */
    settled: ({ app }: Decision): void => seriesOf(countersOf(app))?.settled(),
    /** Called after `settled` if the estimate was not exact. */
    deviated: ({ app }: Decision, _actualCost: number, ratio: number): void =>
      seriesOf(countersOf(app))?.deviated(ratio),
    transferLimited: ({ app }: Decision, action: LimitedTransfer): void =>
      seriesOf(countersOf(app))?.transferLimited(action),
    reconfigure,

    /** @param facts the version of the configuration, open client connections, and slots that this process holds itself */
    report: (limiter: LimiterState, facts: { configVersion: string; connections: number; slots: number }) => ({
      ...limiter.stats(),
      ...facts,
      node,
      overload: overload(),
      /** A histogram of decision times with `latencyBoundsSeconds`. */
      latency: [...latency],
      refusals: { ...refusals },
      dryRunRefusals: { ...dryRunRefusals },
      ...processCounters.totals(),
      // Not by `process.memoryUsage`, which needs a descriptor.
      heapUsedBytes: getHeapStatistics().used_heap_size,
      heapLimitBytes: getHeapStatistics().heap_size_limit,
    }),

    /** Apps without requests are left out. */
    appReports(apps: readonly string[], limiter: LimiterState): AppReport[] {
      const balances = new Map(limiter.balances().map(({ app, balance }) => [app, balance]));
      return apps.flatMap((app) => {
        const counters = byApp.get(app);
        if (counters === undefined || counters.allowed + counters.refused + counters.dryRunRefused === 0) return [];
        return [appReport(app, counters, node, balances.get(app) ?? 0)];
      });
    },

    /** Requests at each of `limits`. Those without requests are left out. */
    limits: () =>
      Array.from(byLimit, ([name, own]): LimitReport => {
        return [name, own.allowed[0], own.rejected[0], own.dry_run_rejected[0]];
      }),

    /**
     * Apps with requests since they were last reported, or since the start, with their totals; and the last refusals of all apps.
     * Of more than `most` apps, those with the most new requests; the others are reported later.
     */
    activity(most = Number.POSITIVE_INFINITY) {
      let apps: [app: string, requests: number, refused: number, dryRunRefused: number][] = [];
      for (const [app, { allowed, refused, dryRunRefused }] of byApp) {
        const requests = allowed + refused + dryRunRefused;
        if (requests !== (reported.get(app) ?? 0)) apps.push([app, requests, refused, dryRunRefused]);
      }
      if (apps.length > most) {
        const added = ([app, requests]: (typeof apps)[number]) => requests - (reported.get(app) ?? 0);
        apps = apps.sort((one, other) => added(other) - added(one)).slice(0, most);
      }
      for (const [app, requests] of apps) reported.set(app, requests);
      return { node, life, apps, recentRefusals };
    },

    sample: () => sample.list(wallClock()),

    metrics: (limiter: LimiterState, connections: ProcessGauges = { pods: [], proxies: [] }) => ({
      node,
      /** Identifies the process: a replaced worker has the same node name. */
      life,
      /** Number of this report within the process. */
      seq: ++seq,
      /** Counters and histograms. Cumulative. */
      counters: (enabled ? series.list() : {}) as SeriesList,
      /** Current values, dropped when the worker is gone. */
      gauges: (enabled ? gauges(limiter, connections) : {}) as SeriesList,
    }),
    close,
  };
}
