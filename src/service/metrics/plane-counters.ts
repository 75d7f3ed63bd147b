/** Sums the counters that data planes send in sync messages. Each batch is counted once, and no sum decreases. */
import { VALUE_PREFIX } from "../../core/keys.js";
import { type MetricName, metricList, metrics } from "./catalog.js";
import { layerOf, methodLabels, NO_APP, reasons } from "./labels.js";
import { createPlaneTotals } from "./plane-totals.js";
import { latencyBoundsSeconds } from "./process-counters.js";
import { reportedReasons } from "./refusal-counts.js";
import { NO_APP_REPORT, type PlaneReport } from "./reports.js";
import { createSeries, type Series, type SeriesList, seriesKey, type Values } from "./series.js";

interface ReportingNode {
  epoch: number;
  batch: number;
  at: number;
  gauges: PlaneReport["node"];
  pods: NonNullable<PlaneReport["pods"]>;
}

type LabelOf = (app: string) => string | undefined;

/** A node that has not reported for this long uses another service or is gone. */
const SHOWN_MS = 10_000;
/** For this long a node may repeat a batch. */
const KEPT_MS = 3_600_000;
/** Nodes choose their names, so their number is bounded; the least recent is dropped first. */
const MOST_NODES = 1_000;

/** @param now milliseconds, monotonic */
export function createPlaneCounters(now: () => number) {
  /** Ordered by the time of the last report. */
  const nodes = new Map<string, ReportingNode>();
  const sums = createSeries();
  const totals = createPlaneTotals();

  function expire(): void {
    const before = now() - KEPT_MS;
    for (const [node, { at }] of nodes) {
      if (at >= before && nodes.size <= MOST_NODES) return;
      nodes.delete(node);
    }
  }

  return {
    /** Called when the message is about to be answered. A node that gets no reply repeats its batch. */
    add(node: string, epoch: number, report: PlaneReport, labelOf: LabelOf): void {
      const { batch, apps, refusals = [], node: gauges } = report;
      const last = nodes.get(node) ?? { epoch, batch: 0, pods: [] };
      // A node that restarts after its clock was set back continues with lower batch numbers, in another epoch.
      const isNew = batch > last.batch || (batch > 0 && batch < last.batch && epoch !== last.epoch);
      if (isNew) {
        for (const one of apps) {
          if (one.app.startsWith(VALUE_PREFIX)) {
            const name = labelOf(one.app);
            if (name === undefined) continue;
            addLimit(sums, name, one.numbers);
            totals.addLimit(name, one.numbers);
            continue;
          }
          addApp(sums, one, labelOf);
          totals.add(one, labelOf(one.app) !== undefined);
        }
        for (const one of refusals) {
          if (labelOf(one.app) !== undefined) totals.addRefusal(node, one, gauges.clock);
        }
      }
      nodes.delete(node);
      nodes.set(node, { epoch, batch: isNew ? batch : last.batch, at: now(), gauges, pods: report.pods ?? last.pods });
      expire();
    },
    /** The sums. Counters of apps without one of these labels are dropped for good. */
    list(labels: ReadonlySet<string>): SeriesList {
      sums.retainApps(labels);
      return sums.list();
    },
    /** For the admin API. */
    totals,
    /** Data planes that reported recently. */
    recent() {
      const since = now() - SHOWN_MS;
      return [...nodes].flatMap(([node, { at, gauges }]) => (at < since ? [] : [{ node, gauges }]));
    },
    /** Adds the gauges of nodes that reported recently, except those with one of these names. */
    addGauges(page: Series, except: ReadonlySet<string>): void {
      const since = now() - SHOWN_MS;
      // Only pods of the configuration, which the page has already: data planes must not create series.
      const known = new Set([...page.entries("websocket_pod_connections")].map(([key]) => key));
      for (const [node, { at, gauges, pods }] of nodes) {
        if (at < since || except.has(node)) continue;
        for (const { route, upstream, pod, active } of pods) {
          const labels = [route, upstream, pod];
          if (known.has(seriesKey(labels))) page.add("websocket_pod_connections", labels, active);
        }
        for (const [name, value] of Object.entries(gauges)) {
          const metric = gaugeNames.get(name);
          if (metric !== undefined) page.add(metric, [node], value);
        }
      }
    },
  };
}

/** Gauges of data planes, by their name in the sync message. */
const gaugeNames = new Map(
  metricList.flatMap(([metric, { nodeGauge }]) => (nodeGauge === undefined ? [] : [[nodeGauge, metric]])),
);

interface CounterSeries {
  metric: MetricName;
  labels: readonly string[];
}

/** Series by the counter of data planes that is added to them. */
const seriesByCounter = new Map<string, CounterSeries[]>();
for (const [metric, { planeCounters = {} }] of metricList) {
  for (const [counter, labels] of Object.entries(planeCounters)) {
    const others = seriesByCounter.get(counter) ?? [];
    seriesByCounter.set(counter, [...others, { metric, labels }]);
  }
}

/** Requests by limit: allowed, rejected, dry run. Only for configured limits, so that data planes cannot create labels. */
function addLimit(sums: Series, name: string, numbers: PlaneReport["apps"][number]["numbers"]): void {
  const [allowed = 0, rejected = 0, dryRun = 0] = numbers.requests ?? [];
  if (allowed > 0) sums.add("ratelimit_limit_requests_total", [name, "allowed"], allowed);
  if (rejected > 0) sums.add("ratelimit_limit_requests_total", [name, "rejected"], rejected);
  if (dryRun > 0) sums.add("ratelimit_limit_requests_total", [name, "dry_run_rejected"], dryRun);
}

/** For each bucket of data planes, which are finer, the bucket of the metric. */
const latencyBuckets = [...latencyBoundsSeconds, Number.POSITIVE_INFINITY].map((bound) => {
  const { bounds } = metrics.ratelimit_check_latency_seconds;
  const bucket = bounds.findIndex((one) => one >= bound);
  return bucket === -1 ? bounds.length : bucket;
});

/** The numbers begin with a sum in nanoseconds. */
function addLatency(sum: Values, [nanoseconds = 0, ...counts]: readonly number[]): void {
  sum[0] += nanoseconds / 1e9;
  latencyBuckets.forEach((bucket, i) => {
    sum[bucket + 1]! += counts[i] ?? 0;
  });
}

/** Unknown names are ignored: a newer data plane may count more. */
function addApp(sums: Series, { app, numbers }: PlaneReport["apps"][number], labelOf: LabelOf): void {
  const label = app === NO_APP_REPORT ? NO_APP : (labelOf(app) ?? NO_APP);
  for (const { code, dryRun, own, byLimits } of reportedReasons(numbers, reasons)) {
    if (dryRun) continue;
    if (own > 0) sums.add("ratelimit_refusals_total", [label, layerOf(code), code], own);
    if (byLimits > 0) sums.add("ratelimit_refusals_total", [label, "limit", code], byLimits);
  }
  for (const [name, values] of Object.entries(numbers)) {
    const [first = 0, second = 0, third = 0, ...cost] = values;
    for (const { metric, labels } of seriesByCounter.get(name) ?? []) sums.add(metric, labels, first);
    if (name === "l3") {
      // Requests without an app have no lease.
      if (label === NO_APP) continue;
      sums.add("ratelimit_l3_hits_total", [label], first);
      sums.add("ratelimit_l3_misses_total", [label], second);
    } else if (name === "latency_local" || name === "latency_remote") {
      addLatency(
        sums.of("ratelimit_check_latency_seconds", label, name === "latency_local" ? "local" : "remote"),
        values,
      );
    } else if (methodLabels.includes(name)) {
      sums.add("ratelimit_requests_total", [label, name, "allowed"], first);
      sums.add("ratelimit_requests_total", [label, name, "rejected"], second);
      if (third > 0) sums.add("ratelimit_requests_total", [label, name, "dry_run_rejected"], third);
      sums.add("ratelimit_requests_allowed_total", [label], first + third);
      sums.add("ratelimit_requests_rejected_total", [label], second);
      const sum = sums.of("ratelimit_request_cost", label, name);
      for (let i = 0; i < sum.length; i++) sum[i]! += cost[i] ?? 0;
    }
  }
}
