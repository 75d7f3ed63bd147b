/** One gateway process: a limiter with its own leases, the keeper of its slots, the proxy, and the listener for Envoy. */
import { clusterOptions, headerOptions, identityOptions, limiterOptions } from "../../config/options/limiter.js";
import { proxyOptions } from "../../config/options/proxy.js";
import {
  descriptorOptions,
  envoyServiceOptions,
  metricsOptions,
  overloadLimits,
} from "../../config/options/service.js";
import { podSources, podsOf, slotOptions, slotPlacements } from "../../config/options/slots.js";
import type { Config } from "../../config/schema.js";
import { createEnvoyService } from "../../envoy-service/envoy-service.js";
import { createDescriptorLimiter } from "../../limiter/descriptors/descriptor-limiter.js";
import { createLimiter, type LimiterObserver } from "../../limiter/limiter.js";
import { createProxy } from "../../planes/node/http/proxy.js";
import { createRateLimitAdmission } from "../../planes/node/http/request-admission.js";
import { createTokenSource } from "../../planes/node/identity/token-source.js";
import type { Deciders } from "../../planes/node/options.js";
import { createQuota } from "../../quota/quota.js";
import { createAddressMatcher } from "../../shared/addresses.js";
import type { ShedReason } from "../../shared/connection-limits.js";
import type { Log } from "../../shared/log.js";
import { fileBudget } from "../../shared/open-files.js";
import { createOverload } from "../../shared/overload.js";
import type { Certificates } from "../../shared/tls/certificates.js";
import { createPodDirectory } from "../../slots/pods.js";
import { createSlotKeeper, newProxyId } from "../../slots/slot-keeper.js";
import type { SlotKeeperObserver } from "../../slots/slot-keeper-options.js";
import { createRouteSlots } from "../../slots/slots.js";
import { observeStore } from "../../store/observed-store.js";
import type { Store } from "../../store/store.js";
import { createDecisionLog, type DecisionLog } from "../metrics/decision-log.js";
import type { Listener } from "../metrics/labels.js";
import { createNodeMetrics, type NodeMetrics, type ProcessGauges } from "../metrics/node-metrics.js";
import type { ReportRequest, Reports } from "../metrics/reports.js";
import type { RunningTracing } from "../telemetry/tracing.js";

export type Gateway = ReturnType<typeof createGateway>;

export interface GatewayOptions {
  config: Config;
  configVersion: string;
  /** The name of this process among all nodes of the cluster. */
  node: string;
  store: Store;
  /** The certificates of listeners and of the store. The gateway adds the ones of upstreams. */
  certificates?: Certificates;
  tracing?: RunningTracing | undefined;
  log: Log;
}

/** Longest time for the export of the last spans. */
const LAST_EXPORT_MS = 1_000;

export function createGateway({
  config,
  node,
  store: plainStore,
  log,
  certificates,
  tracing,
  ...options
}: GatewayOptions) {
  let settings = settingsOf(config);
  let { configVersion } = options;
  const files = fileBudget();
  const overload = createOverload({ limits: () => settings.overload, log });
  const metrics = createNodeMetrics({ node, ...metricsOptions(config), overload: overload.state });
  const store = observeStore(plainStore, metrics.storeObserver);
  const quota = createQuota(store, clusterOptions(config));
  const decisionLog = createDecisionLog({
    log: log.unlimited ?? log,
    perSecond: () => settings.log.refusals_per_second,
    slowMs: () => settings.log.slow_decision_ms,
  });
  const limiter = createLimiter({
    node,
    ...limiterOptions(config),
    target: quota,
    observer: limiterObserver(log, metrics, decisionLog),
  });
  const slotObserver = { ...slotLog(log), ...metrics.slotObserver };
  const slots = createRouteSlots(store, config.cluster.id, (route) => settings.placements.get(route));
  const keeper = createSlotKeeper({
    ...slotOptions(config),
    slots,
    proxy: newProxyId(node),
    liveProxies: () => limiter.stats().liveNodes,
    observer: slotObserver,
  });
  const tokens = createTokenSource(log);
  const proxy = createProxy({
    ...proxyOptions(config),
    ...deciders(config),
    overload: { ...overload, sheds: () => shed("gateway") },
    maxUpstreams: files.upstreams,
    certificates,
    tracing,
    log,
  });
  const descriptors = createDescriptorLimiter({ limiter, ...descriptorOptions(config) });
  const envoy = createEnvoyService(envoyServiceOptions(config), {
    descriptors,
    sheds: () => shed("envoy"),
    log,
  });
  const directory = createPodDirectory({
    sources: podSources(config),
    changed({ upstream, pods, came, left }) {
      log.info({ upstream, pods: pods.length, came: came.length, left: left.length }, "pods changed");
      proxy.setTargets(upstream, pods);
    },
    failed: (upstream, error) => log.warn({ upstream, err: error }, "DNS lookup failed: keeping the last known pods"),
  });

  function shed(listener: Listener): boolean {
    const isShed = overload.sheds();
    if (isShed) metrics.shed(listener);
    return isShed;
  }

  function deciders(applied: Config): Deciders {
    const { jwt, ...identity } = identityOptions(applied);
    return {
      admission: createRateLimitAdmission({
        ...identity,
        tokens: tokens.follow(jwt),
        headers: headerOptions(applied),
        limiter,
        isTrustedHop: createAddressMatcher(identity.trustedHops),
        hasLimits: applied.limits.length > 0,
        isConfigured: (app) => limiter.limitsOf(app) !== undefined,
      }),
      upgrades: keeper,
    };
  }

  function gauges(): ProcessGauges {
    const configured = podsOf(settings, directory.pods);
    const { pods, active } = keeper.stats();
    const byPod = new Map<string, ProcessGauges["pods"][number]>();
    for (const { route, pod, upstream, limit } of configured) {
      byPod.set(`${route} ${pod}`, { route, pod, upstream, limit, active: 0 });
    }
    for (const { route, pod, active: open } of pods) {
      const known = byPod.get(`${route} ${pod}`) ?? { route, pod, upstream: "", limit: 0, active: 0 };
      byPod.set(`${route} ${pod}`, { ...known, active: known.active + open });
    }
    return {
      certificates: certificates?.expiries() ?? new Map(),
      pods: [...byPod.values()],
      proxies: configured.length === 0 ? [] : [{ proxy: node, active }],
    };
  }

  return {
    proxy,
    limiter,
    /** Not listening yet; never listens if the configuration has no `envoy.listen`. */
    envoy,
    connectionLimits: {
      gateway: {
        total: files.clients,
        // A tunnel also has a connection to a pod.
        extra: proxy.upgradedConnections,
        perClient: () => settings.connectionsPerClient,
        isTrusted: proxy.isTrustedHop,
        shed: (reason: ShedReason) => metrics.connectionShed("gateway", reason),
        log,
      },
      envoy: { total: files.envoy, shed: (reason: ShedReason) => metrics.connectionShed("envoy", reason), log },
    },
    backgroundFailed: metrics.backgroundFailed,
    handshakeFailed: metrics.handshakeFailed,
    exportFailed: metrics.exportFailed,
    logLineLost: metrics.logLineLost,
    /** Applies a configuration between two requests. Running requests continue. */
    reconfigure(changed: Config, version: string): void {
      settings = settingsOf(changed);
      configVersion = version;
      metrics.reconfigure(metricsOptions(changed));
      quota.reconfigure(clusterOptions(changed));
      limiter.reconfigure({ ...limiterOptions(changed), target: quota });
      descriptors.reconfigure(descriptorOptions(changed));
      envoy.reconfigure(envoyServiceOptions(changed));
      keeper.reconfigure(slotOptions(changed));
      proxy.reconfigure({ ...proxyOptions(changed), ...deciders(changed) });
      directory.reconfigure(podSources(changed));
    },
    report(request: ReportRequest): Reports[ReportRequest["kind"]] {
      switch (request.kind) {
        case "report":
          return metrics.report(limiter, {
            configVersion,
            connections: proxy.openConnections() + envoy.openConnections(),
            slots: keeper.stats().active,
          });
        case "activity":
          return metrics.activity(request.most);
        case "apps":
          return metrics.appReports(request.apps, limiter);
        case "limits":
          return metrics.limits();
        case "sample":
          return metrics.sample();
        case "metrics":
          return metrics.metrics(limiter, gauges());
      }
    },
    /** Finishes running requests within the grace period, then returns all tokens and slots. The store stays open. */
    async stop(graceMs: number): Promise<void> {
      directory.close();
      tokens.close();
      keeper.drain();
      await Promise.all([proxy.drain(graceMs), envoy.close(graceMs)]);
      descriptors.close();
      // Exchanges are settled until the last one has ended; only then it is known which tokens to return.
      await Promise.all([limiter.close(), keeper.close()]);
      await tracing?.close(LAST_EXPORT_MS);
      decisionLog.close();
      metrics.close();
      overload.close();
    },
  };
}

/** The part of the configuration that is still read after it was applied. The rest, with many apps, is not kept. */
function settingsOf(config: Config) {
  const { log, routes, upstreams } = config;
  const { connections_per_client: connectionsPerClient } = config.request_limits;
  const placements = slotPlacements({ routes });
  return { log, routes, upstreams, placements, overload: overloadLimits(config), connectionsPerClient };
}

export function limiterObserver(log: Log, metrics: NodeMetrics, decisionLog: DecisionLog): LimiterObserver {
  return {
    decided(decision, milliseconds, waited) {
      metrics.decided(decision, milliseconds / 1000, waited);
      decisionLog.decided(decision, milliseconds, waited);
    },
    settled: metrics.settled,
    deviated: metrics.deviated,
    transferLimited: metrics.transferLimited,
    synced(outcome, milliseconds, apps, error) {
      metrics.synced(outcome, milliseconds, apps);
      if (outcome !== "ok") log.debug({ outcome, ms: Math.round(milliseconds), apps, err: error }, "sync failed");
    },
    levelChanged(level, before, shard) {
      if (level > before) log.warn({ degradation: level, before, shard }, "degradation level rises");
      else log.info({ degradation: level, before, shard }, "degradation level falls");
    },
    emergencyChanged: (active) => log.warn({ active }, active ? "emergency begins" : "emergency ends"),
  };
}

function slotLog(log: Log): SlotKeeperObserver {
  return {
    contactChanged(route, away, error) {
      if (away) log.warn({ route, err: error }, "store unavailable: connections are admitted without it");
      else log.info({ route }, "store available again for connections");
    },
    stateLost: (route) => log.warn({ route }, "the store lost its slots: renewing all connections"),
    closed: (pod, code) => log.warn({ pod, code }, "closing a connection that lost its slot"),
    failed: (operation, error) => log.debug({ operation, err: error }, "slot operation failed"),
  };
}
