/** The metrics of a whole service, for GET /metrics: its own, its workers' together, and what the store says. */

import { collectDefaultMetrics, Registry } from "prom-client";
import type { BucketLimits } from "../../core/limits.js";
import type { Coordinator } from "../../quota/coordinator.js";
import type { Quota } from "../../quota/quota.js";
import type { Clock } from "../../shared/clock.js";
import type { StoreObserver } from "../../store/observed-store.js";
import type { NodeNumbers } from "../control/plane-api/sync-numbers.js";
import { metrics } from "./catalog.js";
import type { ConnectionNumbers } from "./connection-numbers.js";
import { addCounters, type Counters } from "./counters.js";
import { appLabels, NO_APP, OTHER_APPS } from "./labels.js";
import type { MetricsReport, ProxyGauge } from "./metrics-report.js";
import { createStoreNumbers, createSyncNumbers, type SyncNumbers, watchLoopLag } from "./node-numbers.js";
import { contentType, createPage, type Page } from "./page.js";
import { createPlaneNumbers, type PlaneNumbers } from "./plane-numbers.js";
import { createStoreGauges } from "./store-gauges.js";
import { createWorkerLives } from "./worker-lives.js";
import { writeCounters, writeNodes, writePlanes } from "./write-numbers.js";

export interface ServiceMetricsOptions {
  node: string;
  /** Of Tollgate. */
  version: string;
  clusterId: string;
  /** The configured apps as they are now, in the order that the workers know. */
  apps(): readonly BucketLimits[];
  /** What decisions by descriptor rules are called, after the apps in the order of labels. */
  rules?(): readonly string[];
  /** So many of them have a label of their own. */
  appLabels(): number;
  config: { version(): string; loadedAtMs(): number };
  coordinator: Pick<Coordinator, "stats" | "emergency">;
  quota: Pick<Quota, "inspect" | "nodes">;
  clock?: Clock;
}

export interface ServiceMetrics {
  /** The type of what `text` answers. */
  readonly contentType: string;
  /** To be told of the calls of the primary's own store. */
  readonly storeObserver: StoreObserver;
  /** To be told of messages that data planes elsewhere send through this service. */
  readonly synced: SyncNumbers["synced"];
  /** To be told of what they have counted, when their message is answered. */
  counted(node: string, epoch: number, numbers: NodeNumbers): void;
  configReloaded(result: "reloaded" | "refused"): void;
  /** Of these workers, and of what the process itself holds in connections. */
  text(workers: readonly MetricsReport[], connections?: ConnectionNumbers): Promise<string>;
  /** How many metrics there are. */
  registrySize(): number;
  close(): void;
}

export function createServiceMetrics(options: ServiceMetricsOptions): ServiceMetrics {
  const { node, config, coordinator } = options;
  const storeNumbers = createStoreNumbers();
  const syncNumbers = createSyncNumbers();
  const lives = createWorkerLives();
  const planes = createPlaneNumbers(options.clock?.now ?? (() => performance.now()));
  const lag = watchLoopLag();
  const processRegistry = processMetrics();
  const reloads = { reloaded: 0, refused: 0 };
  const storeGauges = createStoreGauges({
    quota: options.quota,
    apps: () => options.apps().slice(0, options.appLabels()),
    ...(options.clock === undefined ? {} : { clock: options.clock }),
  });

  function labelsNow(): Map<string, string> {
    const ids = [...options.apps().map(({ id }) => id), ...(options.rules?.() ?? [])];
    return appLabels(ids, options.appLabels());
  }

  function totals(workers: readonly MetricsReport[], connections?: ConnectionNumbers): Map<string, number[]> {
    const labels = new Set([NO_APP, OTHER_APPS, ...labelsNow().values()]);
    const isWanted = (key: string) => {
      const [kind, label = ""] = key.split(" ");
      return (kind !== "app" && kind !== "method") || labels.has(label);
    };
    lives.heard(workers);
    const sum = lives.totals(isWanted);
    planes.addTo(sum, isWanted);
    const own: Counters = {};
    storeNumbers.exportTo(own);
    syncNumbers.exportTo(own);
    connections?.tally.exportTo(own);
    addCounters(sum, own, () => true);
    return sum;
  }

  function writeService(page: Page): void {
    const { rounds, corrections, recoveredTokens } = coordinator.stats();
    page.add("ratelimit_reconcile_rounds_total", {}, rounds);
    page.add("ratelimit_reconcile_corrections_total", {}, corrections);
    page.add("ratelimit_reconcile_recovered_tokens_total", {}, recoveredTokens);
    const active = coordinator.emergency().active;
    page.add("ratelimit_emergency_mode", { cluster_id: options.clusterId }, active ? 1 : 0);
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
      page.add("ratelimit_l1_tokens_available", { cluster_id: options.clusterId }, clusterTokens);
    }
    if (liveNodes !== undefined) page.add("ratelimit_live_nodes", {}, liveNodes);
    for (const [app, own] of tokens) page.add("ratelimit_l2_tokens_available", { app_id: app }, own);
  }

  return {
    contentType,
    storeObserver: storeNumbers,
    synced: syncNumbers.synced,
    counted(name, epoch, numbers) {
      const labels = numbers.apps.length === 0 ? undefined : labelsNow();
      planes.heard(name, epoch, numbers, (app) => labels?.get(app));
    },
    configReloaded: (result) => void reloads[result]++,
    async text(workers, connections) {
      const page = createPage();
      await writeStore(page);
      await writeCounters(page, totals(workers, connections));
      // A data plane chooses its own name: where it is that of a worker, the worker has it.
      const taken = new Set(workers.map(({ node: name }) => name));
      const elsewhere = planes.nodes().filter(({ node: name }) => !taken.has(name));
      writeNodes(
        page,
        workers.map(({ node: name, counters, now }) => ({ node: name, counters, now })),
        {
          pods: connections?.pods ?? [],
          proxies: [...(connections?.proxies ?? []), ...proxiesAmong(elsewhere)],
        },
      );
      writePlanes(page, elsewhere);
      writeService(page);
      return `${await page.text()}\n${await processRegistry.metrics()}`;
    },
    registrySize: () => Object.keys(metrics).length + processRegistry.getMetricsAsArray().length,
    close: lag.close,
  };
}

/** Data planes that hold connections, or could. */
function proxiesAmong(nodes: ReturnType<PlaneNumbers["nodes"]>): ProxyGauge[] {
  return nodes.flatMap(({ node: proxy, gauges: { connections: active } }) =>
    active === undefined ? [] : [{ proxy, active }],
  );
}

/**
 * Of the primary, as prom-client makes them; without gauges whose names say that they are counters, and without those of
 * the event loop, of which we tell ourselves.
 */
function processMetrics(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const { name } of registry.getMetricsAsArray()) {
    if (/^nodejs_(active_.*_total|eventloop_lag.*)$/.test(name)) registry.removeSingleMetric(name);
  }
  return registry;
}
