/** The primary's part in a service: coordinator, sync for data planes, operations, metrics, and the listener for all of it. */

import type { Server } from "node:http";
import type { LiveConfig } from "../../config/live.js";
import { descriptorLabels } from "../../config/options/descriptors.js";
import { appLimits, clusterOptions, coordinatorOptions } from "../../config/options/limits.js";
import { accessOptions } from "../../config/options/service.js";
import { podSources, podsOf, slotOptions } from "../../config/options/slots.js";
import type { Config } from "../../config/schema.js";
import { DEFAULT_APP } from "../../core/identity.js";
import type { AppLimits } from "../../core/limits.js";
import { createCoordinator } from "../../quota/coordinator.js";
import { createQuota } from "../../quota/quota.js";
import type { Log } from "../../shared/log.js";
import { createPodDirectory } from "../../slots/pods.js";
import { createSlots } from "../../slots/slots.js";
import type { StoreObserver } from "../../store/observed-store.js";
import type { Store } from "../../store/store.js";
import { createControl } from "../control/control.js";
import { serviceEndpoints } from "../control/endpoints.js";
import { connectionEndpoints } from "../control/plane-api/connection-api.js";
import { createSyncHandler } from "../control/plane-api/sync.js";
import { type ConnectionNumbers, createConnectionTally, tallyKeeper } from "../metrics/connection-numbers.js";
import { createServiceMetrics } from "../metrics/service-metrics.js";
import { type Ask, createOperations } from "../operations/operations.js";
import { createPin, type PinnedLevel } from "../operations/pin.js";
import { programVersion } from "./version.js";
import type { ToWorker } from "./worker-messages.js";

export interface ControlPlaneOptions {
  live: LiveConfig;
  store: Store;
  log: Log;
  state(): "starting" | "running" | "stopping";
  workers: { expected(): number; listening(): number; tell(message: ToWorker): void; ask: Ask };
}

export interface ControlPlane {
  /** Not listening yet. */
  readonly server: Server;
  readonly storeObserver: StoreObserver;
  pinned(): PinnedLevel | undefined;
  /** The configuration that `live` has now. */
  reconfigure(config: Config): void;
  close(): Promise<void>;
}

export function createControlPlane({ live, store, log, state, workers }: ControlPlaneOptions): ControlPlane {
  const config = live.current();
  const node = config.node_id;
  const clusterId = config.cluster.id;
  const version = programVersion();
  let apps: AppLimits[] = appLimits(config);
  let rules = descriptorLabels(config);
  let configured = new Set(apps.map(({ id }) => id));
  const quota = createQuota(store, clusterOptions(config));
  const coordinator = createCoordinator({
    ...{ quota, store, clusterId, node, apps: () => apps, settings: coordinatorOptions(config) },
    observer: {
      emergencyChanged: ({ active, source }) => log.warn({ active, source }, "emergency changed"),
      failed: (doing, error) => log.debug({ doing, err: error }, "coordination failed"),
    },
  });
  coordinator.onEmergency(({ active }) => workers.tell({ worker: "emergency", active }));
  const pin = createPin({ tell: (level, durationMs) => workers.tell({ worker: "pin", level, durationMs }) });
  const metrics = createServiceMetrics({
    ...{ node, version, clusterId, config: live, coordinator, quota },
    apps: () => apps,
    rules: () => rules,
    appLabels: () => live.current().metrics.app_labels,
  });
  live.onRefused(() => metrics.configReloaded("refused"));
  const tally = createConnectionTally();
  const sync = createSyncHandler({
    ...{ quota, apps: () => apps, synced: metrics.synced, counted: metrics.counted },
    configVersion: () => live.version(),
    timeoutMs: () => live.current().lease.timeout_ms,
    pinnedLevel: () => pin.current()?.level,
  });
  const slots = createSlots(store);
  // For what operators are shown; gateways look for themselves.
  const directory = createPodDirectory({ sources: podSources(config) });
  const operations = createOperations({
    ...{ node, version, live, quota, coordinator, store, pin, state, log, ask: workers.ask },
    ...{ apps: () => apps, slots },
    pods: () => podsOf(live.current(), directory.pods),
    workers: () => ({ expected: workers.expected(), listening: workers.listening() }),
    serviceLevel: () => sync.level(),
    metricsSize: () => (live.current().metrics.enabled ? metrics.registrySize() : 0),
  });
  async function metricsPage() {
    if (!live.current().metrics.enabled) return undefined;
    const text = await metrics.text(await workers.ask({ kind: "metrics" }), planeConnections());
    return { text, contentType: metrics.contentType };
  }
  const control = createControl({
    endpoints: [
      ...serviceEndpoints({ operations, sync, metrics: metricsPage }),
      ...connectionEndpoints({
        slots,
        routes: () => slotOptions(live.current()).routes,
        appOf: (name) => payingApp(name, configured, live.current()),
        timeoutMs: () => live.current().lease.timeout_ms,
        observer: tallyKeeper(tally),
      }),
    ],
    access: () => accessOptions(live.current()),
    ...{ log, version },
  });

  /** Connections of proxies elsewhere are theirs to tell of; here it is known how they were answered. */
  function planeConnections(): ConnectionNumbers {
    return { pods: [], proxies: [], tally };
  }

  return {
    server: control.server,
    storeObserver: metrics.storeObserver,
    pinned: pin.current,
    reconfigure(changed) {
      apps = appLimits(changed);
      rules = descriptorLabels(changed);
      configured = new Set(apps.map(({ id }) => id));
      quota.reconfigure(clusterOptions(changed));
      coordinator.reconfigure(coordinatorOptions(changed));
      directory.reconfigure(podSources(changed));
      metrics.configReloaded("reloaded");
    },
    async close() {
      directory.close();
      await Promise.all([control.close(), coordinator.close()]);
      metrics.close();
    },
  };
}

/** As identity has it: an app that is not configured pays as "default", or is refused. */
function payingApp(name: string, configured: ReadonlySet<string>, config: Config): string | undefined {
  if (configured.has(name)) return name;
  return config.unknown_apps === "default" ? DEFAULT_APP : undefined;
}
