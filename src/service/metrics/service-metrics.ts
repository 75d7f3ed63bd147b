/** The metrics of a whole service, for GET /metrics: the primary, its workers, data planes and values from the store. */
import { collectDefaultMetrics, Registry } from "prom-client";
import type { BucketLimits } from "../../core/limits.js";
import type { Coordinator } from "../../quota/coordinator.js";
import type { Quota } from "../../quota/quota.js";
import type { Clock } from "../../shared/clock.js";
import type { StoreObserver } from "../../store/observed-store.js";
import { metrics } from "./catalog.js";
import { addCounters, type Counters } from "./counters.js";
import { appLabels, NO_APP, OTHER_APPS } from "./labels.js";
import { contentType, createPage, type Page } from "./page.js";
import { createPlaneCounters } from "./plane-counters.js";
import {
  type ConnectionMetrics,
  createStoreCounters,
  createSyncCounters,
  type SyncCounters,
  watchLoopLag,
} from "./process-counters.js";
import type { MetricsReport, PlaneReport } from "./reports.js";
import { createStoreGauges } from "./store-gauges.js";
import { createWorkerTotals } from "./worker-totals.js";
import { writeCounters, writeNodes, writePlanes } from "./write-metrics.js";

export interface ServiceMetricsOptions {
  node: string;
  /** Of Tollgate. */
  version: string;
  clusterId: string;
  /** The configured apps, in the same order as in the workers. */
  apps(): readonly BucketLimits[];
  /** Names of descriptor limits; they get labels after the apps. */
  descriptorLabels?(): readonly string[];
  /** This many apps have their own label. */
  appLabels(): number;
  config: { version(): string; loadedAtMs(): number };
  coordinator: Pick<Coordinator, "stats" | "emergency">;
  quota: Pick<Quota, "inspect" | "nodes">;
  clock?: Clock;
}

export interface ServiceMetrics {
  /** Media type of `text`. */
  readonly contentType: string;
  /** For the store calls of the primary. */
  readonly storeObserver: StoreObserver;
  /** For sync messages of data planes. */
  readonly synced: SyncCounters["synced"];
  /** Adds the counters of a data plane when its message is answered. */
  counted(node: string, epoch: number, report: PlaneReport): void;
  configReloaded(result: "reloaded" | "refused"): void;
  /** @param connections of the primary */
  text(workers: readonly MetricsReport[], connections?: ConnectionMetrics): Promise<string>;
  /** Number of metrics. */
  registrySize(): number;
  close(): void;
}

export function createServiceMetrics(options: ServiceMetricsOptions): ServiceMetrics {
  const { node, config, coordinator, clusterId } = options;
  const storeCounters = createStoreCounters();
  const syncCounters = createSyncCounters();
  const workerTotals = createWorkerTotals();
  const planes = createPlaneCounters(options.clock?.now ?? (() => performance.now()));
  const lag = watchLoopLag();
  const processRegistry = processMetrics();
  const reloads = { reloaded: 0, refused: 0 };
  const storeGauges = createStoreGauges({
    quota: options.quota,
    apps: () => options.apps().slice(0, options.appLabels()),
    ...(options.clock === undefined ? {} : { clock: options.clock }),
  });

  function labels(): Map<string, string> {
    const names = [...options.apps().map(({ id }) => id), ...(options.descriptorLabels?.() ?? [])];
    return appLabels(names, options.appLabels());
  }

  function totals(workers: readonly MetricsReport[], connections?: ConnectionMetrics): Map<string, number[]> {
    const known = new Set([NO_APP, OTHER_APPS, ...labels().values()]);
    const isWanted = (key: string) => {
      const [kind, label = ""] = key.split(" ");
      return (kind !== "app" && kind !== "method") || known.has(label);
    };
    workerTotals.add(workers);
    const sum = workerTotals.totals(isWanted);
    planes.addTo(sum, isWanted);
    const own: Counters = {};
    storeCounters.exportTo(own);
    syncCounters.exportTo(own);
    connections?.counters.exportTo(own);
    addCounters(sum, own, () => true);
    return sum;
  }

  function writeService(page: Page): void {
    const { rounds, corrections, recoveredTokens } = coordinator.stats();
    page.add("ratelimit_reconcile_rounds_total", {}, rounds);
    page.add("ratelimit_reconcile_corrections_total", {}, corrections);
    page.add("ratelimit_reconcile_recovered_tokens_total", {}, recoveredTokens);
    page.add("ratelimit_emergency_mode", { cluster_id: clusterId }, coordinator.emergency().active ? 1 : 0);
    page.add("ratelimit_config_info", { version: config.version() }, 1);
    page.add("ratelimit_config_last_reload_success_timestamp_seconds", {}, config.loadedAtMs() / 1000);
    for (const [result, count] of Object.entries(reloads))
      page.add("ratelimit_config_reloads_total", { result }, count);
    page.add("ratelimit_build_info", { version: options.version }, 1);
    const { meanSeconds, p99Seconds } = lag.take();
    page.add("ratelimit_event_loop_lag_seconds", { node_id: node }, meanSeconds);
    page.add("ratelimit_event_loop_lag_p99_seconds", { node_id: node }, p99Seconds);
  }

  async function writeStore(page: Page): Promise<void> {
    const { clusterTokens, liveNodes, tokens } = await storeGauges();
    if (clusterTokens !== undefined) {
      page.add("ratelimit_l1_tokens_available", { cluster_id: clusterId }, clusterTokens);
    }
    if (liveNodes !== undefined) page.add("ratelimit_live_nodes", {}, liveNodes);
    for (const [app, own] of tokens) page.add("ratelimit_l2_tokens_available", { app_id: app }, own);
  }

  return {
    contentType,
    storeObserver: storeCounters,
    synced: syncCounters.synced,
    counted(name, epoch, report) {
      const known = report.apps.length === 0 ? undefined : labels();
      planes.add(name, epoch, report, (app) => known?.get(app));
    },
    configReloaded: (result) => void reloads[result]++,
    async text(workers, connections) {
      const page = createPage();
      await writeStore(page);
      await writeCounters(page, totals(workers, connections));
      // Data planes choose their names. Where one has the name of a worker, only the worker is shown.
      const taken = new Set(workers.map(({ node: name }) => name));
      const elsewhere = planes.nodes().filter(({ node: name }) => !taken.has(name));
      const proxies = elsewhere.flatMap(({ node: proxy, gauges: { connections: active } }) =>
        active === undefined ? [] : [{ proxy, active }],
      );
      writeNodes(page, workers, {
        pods: connections?.pods ?? [],
        proxies: [...(connections?.proxies ?? []), ...proxies],
      });
      writePlanes(page, elsewhere);
      writeService(page);
      return `${await page.text()}\n${await processRegistry.metrics()}`;
    },
    registrySize: () => Object.keys(metrics).length + processRegistry.getMetricsAsArray().length,
    close: lag.close,
  };
}

/** Process metrics of prom-client, without gauges named like counters and without its event loop metrics, which we replace. */
function processMetrics(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const { name } of registry.getMetricsAsArray()) {
    if (/^nodejs_(active_.*_total|eventloop_lag.*)$/.test(name)) registry.removeSingleMetric(name);
  }
  return registry;
}
