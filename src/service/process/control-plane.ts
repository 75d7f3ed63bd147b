/** The primary's part of a service: coordinator, sync with data planes, operations, metrics and the control listener. */
import type { LiveConfig } from "../../config/live/live.js";
import { appLimits, bucketLimitsOf, clusterOptions, coordinatorOptions } from "../../config/options/limiter.js";
import {
  accessOptions,
  metricsOptions,
  otelOptions,
  overloadLimits,
  planeBudget,
  pushOptions,
} from "../../config/options/service.js";
import { podSources, podsOf, routeTargets, slotLimits, slotPlacements } from "../../config/options/slots.js";
import type { Config } from "../../config/schema.js";
import { DEFAULT_APP } from "../../core/identity.js";
import { TOO_MANY_VALUES } from "../../limiter/limits/plane-values.js";
import { createCoordinator } from "../../quota/coordinator.js";
import { createQuota } from "../../quota/quota.js";
import { ShardMismatch } from "../../quota/shard-count.js";
import { createPlaneBudgets, OVER_BUDGET } from "../../shared/access/plane-budgets.js";
import { systemClock } from "../../shared/clock.js";
import type { ShedReason } from "../../shared/connection-limits.js";
import type { Log } from "../../shared/log.js";
import { fileBudget } from "../../shared/open-files.js";
import { createOverload } from "../../shared/overload.js";
import { type Certificates, createCertificates } from "../../shared/tls/certificates.js";
import { createPodDirectory } from "../../slots/pods.js";
import { createRouteTargets } from "../../slots/route-targets.js";
import { createRouteSlots } from "../../slots/slots.js";
import type { Store } from "../../store/store.js";
import { createControl } from "../control/control.js";
import { connectionEndpoints } from "../control/plane-api/connection-api.js";
import { MESSAGE_BYTES, overBudget } from "../control/plane-api/plane-budget.js";
import { createRecentRecalls } from "../control/plane-api/recent-recalls.js";
import { createSyncHandler, syncEndpoint } from "../control/plane-api/sync.js";
import { createDashboard } from "../dashboard/dashboard.js";
import { createPush } from "../metrics/push/push.js";
import { createServiceMetrics } from "../metrics/service-metrics.js";
import { createContext } from "../operations/context.js";
import { operationEndpoints } from "../operations/operations.js";
import { createPin } from "../operations/pin.js";
import { connectionsOf } from "../operations/status.js";
import { type MetricsExport, startMetricsExport } from "../telemetry/metrics-export.js";
import { programVersion } from "./version.js";
import type { Workers } from "./workers.js";

export interface ControlPlaneOptions {
  live: LiveConfig;
  store: Store;
  log: Log;
  state(): "starting" | "running" | "stopping";
  workers: Pick<Workers, "send" | "ask" | "counts">;
  /** Of the primary. */
  certificates?: Certificates;
  /** Callers on this machine need no token: only for the demo. */
  isOpen?: boolean | undefined;
}

/** Routes whose slots are counted for a scrape: one store call each. */
const MOST_COUNTED_ROUTES = 1_000;

export function createControlPlane(options: ControlPlaneOptions) {
  const { live, store, log, state, workers, isOpen, certificates = createCertificates() } = options;
  const config = live.current();
  const node = config.node_id;
  const clusterId = config.cluster.id;
  const version = programVersion();
  let access = accessOptions(config);
  let budget = planeBudget(config);
  let targeted = routeTargets(config);
  let apps = appLimits(config);
  let configured = new Set(apps.map(({ id }) => id));
  let metered = metricsOptions(config);
  let placements = slotPlacements(config);
  let limited = { config, limits: slotLimits(config.routes, config.upstreams) };
  let limits = overloadLimits(config);
  const overload = createOverload({ limits: () => limits, log });
  const quota = createQuota(store, clusterOptions(config));
  const coordinator = createCoordinator({
    quota,
    store,
    clusterId,
    node,
    apps: () => apps,
    ...coordinatorOptions(config),
    observer: {
      emergencyChanged({ active, source, operator, reason }) {
        log.warn({ active, source, operator, reason }, "emergency changed");
        workers.send({ worker: "emergency", active });
      },
      failed: (task, error) => log.debug({ task, err: error }, "coordinator task failed"),
    },
  });
  const pin = createPin({ send: (level, durationMs) => workers.send({ worker: "pin", level, durationMs }) });
  const metrics = createServiceMetrics({
    node,
    version,
    clusterId,
    config: live,
    coordinator,
    quota,
    apps: () => apps,
    isLimit: (name) => live.current().limits.some((limit) => limit.name === name),
    overload: overload.state,
    certificates: certificates.expiries,
    slots: podSlots,
    metrics: () => metered,
  });
  const collect = async () => metrics.collect(await workers.ask({ kind: "metrics" }));
  const push = createPush({
    ...{ ...pushOptions(config), collect, failed: metrics.exportFailed },
    log,
    clock: systemClock,
  });
  let metricsExport: MetricsExport | undefined;
  live.onRefused(() => metrics.configReloaded("refused"));
  const timeoutMs = () => live.current().lease.timeout_ms;
  const recalls = createRecentRecalls(quota, systemClock);
  const budgets = createPlaneBudgets({
    most: (name, isCommon) => budget(name, isCommon),
    clock: systemClock,
    exceeded: (plane, name, most) =>
      log.warn({ plane, budget: name, most }, name === "values" ? TOO_MANY_VALUES : OVER_BUDGET),
    refused: metrics.overBudget,
  });
  const sync = createSyncHandler({
    quota,
    recalled: recalls.forNode,
    emergency: coordinator.emergency,
    apps: () => apps,
    limitOf: (id) => bucketLimitsOf(live.current(), id),
    synced: metrics.synced,
    counted: metrics.counted,
    configVersion: () => live.version(),
    timeoutMs,
    pinnedLevel: () => pin.current()?.level,
  });
  const slots = createRouteSlots(store, clusterId, (route) => placements.get(route));
  // Only for the admin API; gateways have their own directory.
  const directory = createPodDirectory({ sources: podSources(config) });
  const targets = createRouteTargets(() => targeted);
  const context = createContext({
    node,
    version,
    live,
    quota,
    coordinator,
    store,
    pin,
    state,
    slots,
    ask: workers.ask,
    planes: metrics.planes,
    apps: () => apps,
    pods: () => podsOf(live.current(), directory.pods),
    connectionLimits,
    workers: workers.counts,
    recalled: recalls.list,
    overload: overload.state,
    serviceLevel: () => sync.level(),
    metricsPage,
    metricsSize: () => (metered.enabled ? metrics.registrySize() : 0),
  });
  const dashboard = createDashboard({
    context,
    clusterId,
    primaryTotals: metrics.totals,
    sessionSeconds: () => access.sessionSeconds,
    isSecure: () => config.control.tls !== undefined,
  });
  const control = createControl({
    endpoints: [
      ...operationEndpoints(context),
      ...dashboard.endpoints,
      syncEndpoint(sync, budgets),
      ...connectionEndpoints({
        slots,
        routes: connectionLimits,
        isPod: targets.statusOf,
        budgets,
        appOf,
        isDryRun: (app) => live.current().apps[app]?.dry_run === true,
        timeoutMs,
        observer: metrics.slotObserver,
      }),
    ],
    access: () => access,
    onConfig: live.onChange,
    planeRefusal: (plane, bytes) =>
      budgets.spends(plane, "bytes", Math.max(bytes, MESSAGE_BYTES)) ? undefined : overBudget(plane, "bytes"),
    sessionToken: dashboard.sessionToken,
    isOpen,
    sheds() {
      const isShed = overload.sheds();
      if (isShed) metrics.shed("control");
      return isShed;
    },
    log,
    version,
  });

  function connectionLimits() {
    const current = live.current();
    if (limited.config !== current)
      limited = { config: current, limits: slotLimits(current.routes, current.upstreams) };
    return limited.limits;
  }

  async function podSlots() {
    const { pods } = await connectionsOf(context, MOST_COUNTED_ROUTES);
    return pods.map(({ connections, ...pod }) => ({ ...pod, slots: connections }));
  }

  async function metricsPage() {
    if (!metered.enabled) return undefined;
    const parts = metrics.page(await workers.ask({ kind: "metrics" }));
    return { parts, contentType: metrics.contentType };
  }

  /** As for requests: an app that is not configured pays as "default" or is refused. */
  function appOf(name: string): string | undefined {
    if (configured.has(name)) return name;
    return live.current().unknown_apps === "default" ? DEFAULT_APP : undefined;
  }

  return {
    /** Not listening yet. */
    server: control.server,
    storeObserver: metrics.storeObserver,
    handshakeFailed: () => metrics.handshakeFailed("control"),
    logLineLost: metrics.logLineLost,
    workerRestarted: metrics.workerRestarted,
    backgroundFailed: metrics.backgroundFailed,
    connectionLimits: {
      total: fileBudget().control,
      shed: (reason: ShedReason) => metrics.connectionShed("control", reason),
      log,
    },
    /** Rejects if the cluster was created with another number of shards. Without the store, each call verifies it first. */
    async verifyShards(): Promise<void> {
      await quota.verify().catch((error: unknown) => {
        if (error instanceof ShardMismatch) throw error;
      });
    },
    pinned: pin.current,
    /** Rejects if the packages that it needs are not installed. */
    async startExport(): Promise<void> {
      const otel = otelOptions(config);
      metricsExport = await startMetricsExport({ otel, node, version, collect, failed: metrics.exportFailed, log });
    },
    /** Applies the current configuration of `live`. */
    reconfigure(changed: Config): void {
      access = accessOptions(changed);
      budget = planeBudget(changed);
      targeted = routeTargets(changed);
      apps = appLimits(changed);
      metered = metricsOptions(changed);
      limits = overloadLimits(changed);
      placements = slotPlacements(changed);
      configured = new Set(apps.map(({ id }) => id));
      quota.reconfigure(clusterOptions(changed));
      coordinator.reconfigure(coordinatorOptions(changed));
      directory.reconfigure(podSources(changed));
      push.reconfigure(pushOptions(changed));
      metrics.configReloaded("reloaded");
    },
    async close(): Promise<void> {
      dashboard.close();
      push.close();
      directory.close();
      overload.close();
      recalls.close();
      await Promise.all([control.close(), coordinator.close(), metricsExport?.close()]);
      metrics.close();
    },
  };
}
