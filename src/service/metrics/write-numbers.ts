/** Writes what workers have counted, and how they are now, onto the page. */

import { layerOf } from "../operations/explain.js";
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
  syncOutcomes,
} from "./counters.js";
import { callBoundsSeconds, costBounds, deviationBounds, histogramWidth, syncAppsBounds } from "./histogram.js";
import { connectionReasons, NO_APP, reasons } from "./labels.js";
import type { MetricsReport, NodeGauges, PodGauge } from "./metrics-report.js";
import { latencyBoundsSeconds } from "./node-report.js";
import type { Page } from "./page.js";

/** Of the bounds that decisions are counted by, those that are worth a line per app and source. */
const shownLatencySeconds = [0.000005, 0.00001, 0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1];

/** Others in this process wait for their turn: the embedded store is one of them. */
const KEYS_PER_TURN = 200;

/** @param totals as in a report, of all workers together */
export async function writeCounters(page: Page, totals: ReadonlyMap<string, number[]>): Promise<void> {
  const passed = new Map<string, { allowed: number; rejected: number }>();
  const errors = storeOutcomes.map(() => 0);
  let written = 0;
  for (const [key, numbers] of totals) {
    if (++written % KEYS_PER_TURN === 0) await new Promise((resolve) => setImmediate(resolve));
    const [kind, first = "", second = ""] = key.split(" ");
    if (kind === "app") writeApp(page, first, numbers);
    else if (kind === "method") writeMethod(page, first, second, numbers, passed);
    else if (kind === "store") writeCommand(page, first, numbers, errors);
  }
  for (const [app_id, { allowed, rejected }] of passed) {
    page.add("ratelimit_requests_allowed_total", { app_id }, allowed);
    page.add("ratelimit_requests_rejected_total", { app_id }, rejected);
  }
  storeOutcomes.forEach((kind, i) => {
    if (kind !== "ok") page.add("ratelimit_store_errors_total", { kind }, errors[i]!);
  });
  writeSyncs(page, totals.get(SYNC_KEY) ?? new Array<number>(SYNC_WIDTH).fill(0));
  writeConnections(page, totals.get(CONNECTIONS_KEY) ?? new Array<number>(CONNECTIONS_WIDTH).fill(0));
}

function writeApp(page: Page, app_id: string, numbers: number[]): void {
  const count = (at: number) =>
    numbers.slice(at + 1, at + histogramWidth(latencyBoundsSeconds)).reduce((a, b) => a + b, 0);
  for (const [source, at] of [["local", APP_LOCAL] as const, ["remote", APP_REMOTE] as const]) {
    if (count(at) === 0) continue;
    const labels = { app_id, source };
    page.histogram("ratelimit_check_latency_seconds", labels, latencyBoundsSeconds, numbers, at, shownLatencySeconds);
  }
  reasons.forEach((reason, i) => {
    const refused = numbers[APP_REFUSALS + i]!;
    if (refused > 0) page.add("ratelimit_refusals_total", { app_id, layer: layerOf(reason), reason }, refused);
  });
  // Who belongs to no app has no lease, and never gets as far as a settlement.
  if (app_id === NO_APP) return;
  page.add("ratelimit_l3_hits_total", { app_id }, numbers[APP_HITS]!);
  page.add("ratelimit_l3_misses_total", { app_id }, numbers[APP_MISSES]!);
  if (numbers[APP_SETTLED] === 0) return;
  page.histogram("ratelimit_cost_deviation_ratio", { app_id }, deviationBounds, withExactOnes(numbers), APP_DEVIATION);
}

/** Estimates that were exact are not told of one by one: they are the settled exchanges of which nothing was heard. */
function withExactOnes(numbers: number[]): number[] {
  const all = [...numbers];
  const deviated = all
    .slice(APP_DEVIATION + 1, APP_DEVIATION + histogramWidth(deviationBounds))
    .reduce((a, b) => a + b, 0);
  all[APP_DEVIATION + 1]! += Math.max(all[APP_SETTLED]! - deviated, 0);
  return all;
}

function writeMethod(
  page: Page,
  app_id: string,
  method: string,
  numbers: number[],
  passed: Map<string, { allowed: number; rejected: number }>,
): void {
  const [allowed, rejected, dryRun] = [numbers[METHOD_ALLOWED]!, numbers[METHOD_REJECTED]!, numbers[METHOD_DRY_RUN]!];
  page.add("ratelimit_requests_total", { app_id, method, status: "allowed" }, allowed);
  page.add("ratelimit_requests_total", { app_id, method, status: "rejected" }, rejected);
  if (dryRun > 0) page.add("ratelimit_requests_total", { app_id, method, status: "dry_run_rejected" }, dryRun);
  page.histogram("ratelimit_request_cost", { app_id, method }, costBounds, numbers, METHOD_COST);
  const sum = passed.get(app_id) ?? { allowed: 0, rejected: 0 };
  passed.set(app_id, { allowed: sum.allowed + allowed + dryRun, rejected: sum.rejected + rejected });
}

function writeCommand(page: Page, command: string, numbers: number[], errors: number[]): void {
  storeOutcomes.forEach((outcome, i) => {
    const calls = numbers[i]!;
    errors[i]! += calls;
    if (calls > 0) page.add("ratelimit_redis_commands_total", { command, outcome }, calls);
  });
  page.histogram("ratelimit_redis_latency_seconds", { command }, callBoundsSeconds, numbers, STORE_LATENCY);
}

function writeSyncs(page: Page, numbers: number[]): void {
  page.histogram("ratelimit_sync_apps", {}, syncAppsBounds, numbers, SYNC_APPS);
  syncOutcomes.forEach((outcome, i) => {
    const at = SYNC_LATENCY + i * histogramWidth(callBoundsSeconds);
    page.histogram("ratelimit_sync_latency_seconds", { outcome }, callBoundsSeconds, numbers, at);
  });
}

function writeConnections(page: Page, numbers: number[]): void {
  let refused = 0;
  connectionReasons.forEach((reason, i) => {
    refused += numbers[CONNECTIONS_REFUSED + i]!;
    page.add("websocket_refusals_total", { reason }, numbers[CONNECTIONS_REFUSED + i]!);
  });
  page.add("websocket_connections_rejected_total", {}, refused);
  page.histogram("websocket_acquire_seconds", {}, callBoundsSeconds, numbers, CONNECTIONS_ACQUIRE);
  page.add("websocket_leases_lost_total", {}, numbers[CONNECTIONS_LOST]!);
  page.add("websocket_leases_reclaimed_total", {}, numbers[CONNECTIONS_RECLAIMED]!);
}

/** At most so many proxies are named. Those of data planes elsewhere name themselves. */
const MOST_PROXIES = 1_000;

/** @param own the connections of this very process */
export function writeNodes(
  page: Page,
  workers: readonly Pick<MetricsReport, "node" | "counters" | "now">[],
  own: Pick<NodeGauges, "pods" | "proxies">,
): void {
  for (const { node, counters, now } of workers) {
    page.add("ratelimit_degradation_level", { node_id: node }, now.level);
    page.add("ratelimit_event_loop_lag_seconds", { node_id: node }, now.lagSeconds);
    page.add("ratelimit_event_loop_lag_p99_seconds", { node_id: node }, now.lagP99Seconds);
    for (const [label, tokens] of now.balances) {
      page.add("ratelimit_l3_tokens_local", { app_id: label, node_id: node }, tokens);
      const numbers = counters[appKey(label)];
      if (numbers === undefined) continue;
      const [hits, misses] = [numbers[APP_HITS]!, numbers[APP_MISSES]!];
      const ratio = hits / Math.max(hits + misses, 1);
      page.add("ratelimit_l3_cache_hit_ratio", { app_id: label, node_id: node }, ratio);
    }
  }
  const everywhere = [own, ...workers.map(({ now }) => now)];
  writePods(
    page,
    everywhere.flatMap(({ pods }) => pods),
  );
  const proxies = new Map<string, number>();
  for (const { proxy, active } of everywhere.flatMap(({ proxies: some }) => some)) {
    const name = proxies.has(proxy) || proxies.size < MOST_PROXIES ? proxy : "other";
    proxies.set(name, (proxies.get(name) ?? 0) + active);
  }
  for (const [proxy_id, active] of proxies) page.add("websocket_proxy_instance", { proxy_id }, active);
  const total = [...proxies.values()].reduce((sum, active) => sum + active, 0);
  page.add("websocket_connections_active_total", {}, total);
}

/** Gauges of data planes elsewhere, by the names under which they tell them. */
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
