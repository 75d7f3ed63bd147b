/** The metrics of a whole service, for GET /metrics: the primary, its workers, data planes and values from the store. */
import type { MetricsOptions } from "../../config/options/service.js";
import type { BucketLimits } from "../../core/app-limits.js";
import { VALUE_PREFIX } from "../../core/keys.js";
import type { Coordinator } from "../../quota/coordinator.js";
import type { Quota } from "../../quota/quota.js";
import type { Clock } from "../../shared/clock.js";
import type { OverloadState } from "../../shared/overload.js";
import { metricList } from "./catalog.js";
import { appLabels, NO_APP, OTHER_APPS } from "./labels.js";
import { createPlaneCounters } from "./plane-counters.js";
import { addCertificates, createProcessCounters, watchLoopLag } from "./process-counters.js";
import { watchProcess } from "./process-metrics.js";
import type { MetricsReport, PlaneReport } from "./reports.js";
import { createSeries, type Series, writePage } from "./series.js";
import { createStoreReader, type PodSlots } from "./store-state.js";
import { createWorkerTotals } from "./worker-totals.js";

export interface ServiceMetricsOptions {
  node: string;
  /** Of Tollgate. */
  version: string;
  clusterId: string;
  /** The configured apps, in the same order as in the workers. */
  apps(): readonly BucketLimits[];
  /** Whether the configuration has a limit of this name. */
  isLimit?(name: string): boolean;
  /** The same as in the workers. */
  metrics(): MetricsOptions;
  config: { version(): string; loadedAtMs(): number };
  coordinator: Pick<Coordinator, "stats" | "emergency">;
  quota: Pick<Quota, "inspect" | "nodes" | "cluster" | "shards" | "states">;
  /** Of the primary. */
  overload(): OverloadState;
  /** Certificates of the primary by TLS section, with the time of their expiry in Unix milliseconds. */
  certificates?(): ReadonlyMap<string, number>;
  /** The slots of all routes according to the store. */
  slots(): Promise<PodSlots[]>;
  clock?: Clock | undefined;
}

export type ServiceMetrics = ReturnType<typeof createServiceMetrics>;

/** Data planes choose their names, so the number of labels is bounded. */
const MOST_PROXIES = 1_000;

export function createServiceMetrics(options: ServiceMetricsOptions) {
  const { node } = options;
  const own = createSeries();
  const workerTotals = createWorkerTotals();
  const planes = createPlaneCounters(options.clock?.now ?? (() => performance.now()));
  const lag = watchLoopLag();
  const ownProcess = watchProcess();
  const readStore = createStoreReader({
    quota: options.quota,
    apps: () => options.apps().slice(0, options.metrics().appLabels),
    slots: options.slots,
    clock: options.clock,
  });

  /** @param id `limit:NAME` */
  function limitLabel(id: string): string | undefined {
    const name = id.slice(VALUE_PREFIX.length);
    return options.isLimit?.(name) === true ? name : undefined;
  }

  let labelled: { options: MetricsOptions; labels: Map<string, string> } | undefined;

  /** There may be many apps, and data planes report often: computed once per configuration. */
  function labels(): Map<string, string> {
    const current = options.metrics();
    if (labelled?.options !== current) {
      labelled = { options: current, labels: appLabels(current.apps, current.appLabels) };
    }
    return labelled.labels;
  }

  function addGauges(page: Series, workers: readonly MetricsReport[]): void {
    const all = createSeries();
    for (const { gauges } of workers) all.merge(gauges);
    addCertificates(all, options.certificates?.());
    // Data planes choose their names. Where one has the name of a worker, only the worker is shown.
    planes.addGauges(all, new Set(workers.map(({ node: name }) => name)));
    const { websocket_proxy_instance: _proxies, ...others } = all.list();
    page.merge(others);
    page.of("websocket_connections_active_total");
    let proxies = 0;
    for (const [name, [active]] of all.entries("websocket_proxy_instance")) {
      page.add("websocket_proxy_instance", [proxies++ < MOST_PROXIES ? name : "other"], active);
      page.add("websocket_connections_active_total", [], active);
    }
    page.add("ratelimit_overload_refused_share", [node], options.overload().share);
    lag.addTo(page, node);
  }

  async function addService(page: Series): Promise<void> {
    const state = { ...options, store: await readStore() };
    for (const [name, { read }] of metricList) {
      const found = read?.(state);
      if (typeof found === "number") page.add(name, [], found);
      else for (const [value, ...values] of found ?? []) page.add(name, values, value);
    }
  }

  /** All series, as several lists to be added, and the labels of apps to be shown. */
  async function current(workers: readonly MetricsReport[]) {
    const gauges = createSeries();
    const known = new Set([NO_APP, OTHER_APPS, ...labels().values()]);
    workerTotals.add(workers);
    await addService(gauges);
    addGauges(gauges, workers);
    return { lists: [...workerTotals.lists(known), planes.list(known), own.list(), gauges.list()], known };
  }

  return {
    /** For the primary's own store calls, and for calls of data planes. */
    ...createProcessCounters(own),
    /** Media type of the page. */
    contentType: "text/plain; version=0.0.4; charset=utf-8",
    /** Adds the counters of a data plane when its message is answered. */
    counted(name: string, epoch: number, report: PlaneReport): void {
      const known = report.batch === 0 ? undefined : labels();
      planes.add(name, epoch, report, (app) => (app.startsWith(VALUE_PREFIX) ? limitLabel(app) : known?.get(app)));
    },
    /** Decisions that data planes reported, and the data planes themselves. */
    planes: { totals: planes.totals, recent: planes.recent },
    configReloaded: (result: "reloaded" | "refused"): void => own.add("ratelimit_config_reloads_total", [result]),
    workerRestarted: (reason: "crashed" | "unresponsive"): void => own.add("ratelimit_worker_restarts_total", [reason]),
    /** In parts. */
    async *page(workers: readonly MetricsReport[]): AsyncGenerator<string> {
      const { lists, known } = await current(workers);
      yield* writePage(lists, known);
      yield ownProcess.page();
    },
    /** The values of the page, without the process metrics. */
    async collect(workers: readonly MetricsReport[]): Promise<Series> {
      const { lists, known } = await current(workers);
      const sums = createSeries();
      for (const list of lists) sums.merge(list);
      sums.retainApps(known);
      return sums;
    },
    /** Number of metrics. */
    registrySize: () => metricList.length + ownProcess.size,
    close(): void {
      lag.close();
      ownProcess.close();
    },
  };
}
