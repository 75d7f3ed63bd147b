/** Renders the counters and gauges of workers and data planes as samples on the page. */
import {
  APP_DEVIATION,
  APP_HITS,
  APP_LOCAL,
  APP_MISSES,
  APP_REFUSALS,
  APP_REMOTE,
  APP_SETTLED,
  appKey,
  CONNECTIONS_ACQUIRE,
  CONNECTIONS_KEY,
  CONNECTIONS_LOST,
  CONNECTIONS_RECLAIMED,
  CONNECTIONS_REFUSED,
  CONNECTIONS_WIDTH,
  callBoundsSeconds,
  costBounds,
  deviationBounds,
  histogramWidth,
  METHOD_ALLOWED,
  METHOD_COST,
  METHOD_DRY_RUN,
  METHOD_REJECTED,
  STORE_LATENCY,
  SYNC_APPS,
  SYNC_KEY,
  SYNC_LATENCY,
  SYNC_WIDTH,
  storeOutcomes,
  syncAppsBounds,
  syncOutcomes,
} from "./counters.js";
import { connectionReasons, layerOf, NO_APP, reasons } from "./labels.js";
import type { Page } from "./page.js";
import { latencyBoundsSeconds, type MetricsReport, type NodeGauges, type PodGauge } from "./reports.js";

/** The bounds of `latencyBoundsSeconds` that are rendered per app and source. */
const shownLatencySeconds = [0.000005, 0.00001, 0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1];

/** Yield to the event loop after this many keys. */
const KEYS_PER_TURN = 200;

/** @param totals sums over all processes, by key */
export async function writeCounters(page: Page, totals: ReadonlyMap<string, number[]>): Promise<void> {
  const byApp = new Map<string, { allowed: number; rejected: number }>();
  const errors = storeOutcomes.map(() => 0);
  let written = 0;
  for (const [key, counters] of totals) {
    if (++written % KEYS_PER_TURN === 0) await new Promise((resolve) => setImmediate(resolve));
    const [kind, first = "", second = ""] = key.split(" ");
    if (kind === "app") {
      writeApp(page, first, counters);
    } else if (kind === "method") {
      const { allowed, rejected } = writeMethod(page, first, second, counters);
      const sum = byApp.get(first) ?? { allowed: 0, rejected: 0 };
      byApp.set(first, { allowed: sum.allowed + allowed, rejected: sum.rejected + rejected });
    } else if (kind === "store") {
      writeCommand(page, first, counters);
      storeOutcomes.forEach((_, i) => {
        errors[i]! += counters[i]!;
      });
    }
  }
  for (const [app_id, { allowed, rejected }] of byApp) {
    page.add("ratelimit_requests_allowed_total", { app_id }, allowed);
    page.add("ratelimit_requests_rejected_total", { app_id }, rejected);
  }
  storeOutcomes.forEach((kind, i) => {
    if (kind !== "ok") page.add("ratelimit_store_errors_total", { kind }, errors[i]!);
  });
  writeSyncs(page, totals.get(SYNC_KEY) ?? new Array<number>(SYNC_WIDTH).fill(0));
  writeConnections(page, totals.get(CONNECTIONS_KEY) ?? new Array<number>(CONNECTIONS_WIDTH).fill(0));
}

function histogramCount(counters: number[], at: number, bounds: readonly number[]): number {
  return counters.slice(at + 1, at + histogramWidth(bounds)).reduce((a, b) => a + b, 0);
}

function writeApp(page: Page, app_id: string, counters: number[]): void {
  for (const [source, at] of [["local", APP_LOCAL] as const, ["remote", APP_REMOTE] as const]) {
    if (histogramCount(counters, at, latencyBoundsSeconds) === 0) continue;
    const labels = { app_id, source };
    page.histogram("ratelimit_check_latency_seconds", labels, latencyBoundsSeconds, counters, at, shownLatencySeconds);
  }
  reasons.forEach((reason, i) => {
    const refused = counters[APP_REFUSALS + i]!;
    if (refused > 0) page.add("ratelimit_refusals_total", { app_id, layer: layerOf(reason), reason }, refused);
  });
  // Requests without an app have no lease and are never settled.
  if (app_id === NO_APP) return;
  page.add("ratelimit_l3_hits_total", { app_id }, counters[APP_HITS]!);
  page.add("ratelimit_l3_misses_total", { app_id }, counters[APP_MISSES]!);
  if (counters[APP_SETTLED] === 0) return;
  // The limiter does not report exact estimates: these are the settled exchanges without a deviation.
  const exact = Math.max(counters[APP_SETTLED]! - histogramCount(counters, APP_DEVIATION, deviationBounds), 0);
  const all = [...counters];
  all[APP_DEVIATION + 1]! += exact;
  page.histogram("ratelimit_cost_deviation_ratio", { app_id }, deviationBounds, all, APP_DEVIATION);
}

/** Returns the requests that were admitted and rejected. */
function writeMethod(page: Page, app_id: string, method: string, counters: number[]) {
  const allowed = counters[METHOD_ALLOWED]!;
  const rejected = counters[METHOD_REJECTED]!;
  const dryRun = counters[METHOD_DRY_RUN]!;
  page.add("ratelimit_requests_total", { app_id, method, status: "allowed" }, allowed);
  page.add("ratelimit_requests_total", { app_id, method, status: "rejected" }, rejected);
  if (dryRun > 0) page.add("ratelimit_requests_total", { app_id, method, status: "dry_run_rejected" }, dryRun);
  page.histogram("ratelimit_request_cost", { app_id, method }, costBounds, counters, METHOD_COST);
  return { allowed: allowed + dryRun, rejected };
}

function writeCommand(page: Page, command: string, counters: number[]): void {
  storeOutcomes.forEach((outcome, i) => {
    const calls = counters[i]!;
    if (calls > 0) page.add("ratelimit_redis_commands_total", { command, outcome }, calls);
  });
  page.histogram("ratelimit_redis_latency_seconds", { command }, callBoundsSeconds, counters, STORE_LATENCY);
}

function writeSyncs(page: Page, counters: number[]): void {
  page.histogram("ratelimit_sync_apps", {}, syncAppsBounds, counters, SYNC_APPS);
  syncOutcomes.forEach((outcome, i) => {
    const at = SYNC_LATENCY + i * histogramWidth(callBoundsSeconds);
    page.histogram("ratelimit_sync_latency_seconds", { outcome }, callBoundsSeconds, counters, at);
  });
}

function writeConnections(page: Page, counters: number[]): void {
  let refused = 0;
  connectionReasons.forEach((reason, i) => {
    refused += counters[CONNECTIONS_REFUSED + i]!;
    page.add("websocket_refusals_total", { reason }, counters[CONNECTIONS_REFUSED + i]!);
  });
  page.add("websocket_connections_rejected_total", {}, refused);
  page.histogram("websocket_acquire_seconds", {}, callBoundsSeconds, counters, CONNECTIONS_ACQUIRE);
  page.add("websocket_leases_lost_total", {}, counters[CONNECTIONS_LOST]!);
  page.add("websocket_leases_reclaimed_total", {}, counters[CONNECTIONS_RECLAIMED]!);
}

/** Data planes choose their names, so the number of labels is bounded. */
const MOST_PROXIES = 1_000;

/** @param own the connections of the primary and of data planes */
export function writeNodes(
  page: Page,
  workers: readonly MetricsReport[],
  own: Pick<NodeGauges, "pods" | "proxies">,
): void {
  for (const { node, counters, gauges } of workers) {
    page.add("ratelimit_degradation_level", { node_id: node }, gauges.level);
    page.add("ratelimit_event_loop_lag_seconds", { node_id: node }, gauges.lagSeconds);
    page.add("ratelimit_event_loop_lag_p99_seconds", { node_id: node }, gauges.lagP99Seconds);
    for (const [label, tokens] of gauges.balances) {
      page.add("ratelimit_l3_tokens_local", { app_id: label, node_id: node }, tokens);
      const ofApp = counters[appKey(label)];
      if (ofApp === undefined) continue;
      const ratio = ofApp[APP_HITS]! / Math.max(ofApp[APP_HITS]! + ofApp[APP_MISSES]!, 1);
      page.add("ratelimit_l3_cache_hit_ratio", { app_id: label, node_id: node }, ratio);
    }
  }
  const all = [own, ...workers.map(({ gauges }) => gauges)];
  writePods(
    page,
    all.flatMap(({ pods }) => pods),
  );
  const active = new Map<string, number>();
  for (const { proxy, active: connections } of all.flatMap(({ proxies }) => proxies)) {
    const name = active.has(proxy) || active.size < MOST_PROXIES ? proxy : "other";
    active.set(name, (active.get(name) ?? 0) + connections);
  }
  for (const [proxy_id, connections] of active) page.add("websocket_proxy_instance", { proxy_id }, connections);
  const total = [...active.values()].reduce((sum, connections) => sum + connections, 0);
  page.add("websocket_connections_active_total", {}, total);
}

/** Gauges of data planes: name in the sync message → metric. */
const planeGauges = [
  ["level", "ratelimit_degradation_level"],
  ["emergency", "ratelimit_node_emergency"],
  ["syncs", "ratelimit_node_syncs_total"],
  ["failed_syncs", "ratelimit_node_failed_syncs_total"],
  ["memory_free_bytes", "ratelimit_shared_memory_free_bytes"],
] as const;

export function writePlanes(
  page: Page,
  nodes: readonly { node: string; gauges: Readonly<Record<string, number>> }[],
): void {
  for (const { node, gauges } of nodes) {
    for (const [name, metric] of planeGauges) {
      const value = gauges[name];
      if (value !== undefined) page.add(metric, { node_id: node }, value);
    }
  }
}

function writePods(page: Page, pods: readonly PodGauge[]): void {
  const sums = new Map<string, PodGauge>();
  for (const one of pods) {
    const key = `${one.upstream} ${one.pod}`;
    const sum = sums.get(key);
    if (sum === undefined) sums.set(key, { ...one });
    else sums.set(key, { ...sum, active: sum.active + one.active, limit: Math.max(sum.limit, one.limit) });
  }
  for (const { upstream, pod, active, limit } of sums.values()) {
    page.add("websocket_pod_connections", { upstream, pod }, active);
    page.add("websocket_pod_limit", { upstream, pod }, limit);
  }
}
