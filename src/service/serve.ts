/** The whole service on one machine: the primary with store, coordinator and control listener, and its workers. */
import { clusterPolicy, configVersion, limitedApps } from "../config/rooms.js";
import type { Config } from "../config/schema.js";
import type { Address } from "../config/values.js";
import { createCoordinator } from "../quota/coordinator.js";
import { createQuota } from "../quota/quota.js";
import { serveStore } from "../store/ipc/serve-store.js";
import { openStore } from "../store/open.js";
import { createControl } from "./control.js";
import { listen } from "./listen.js";
import { createLog, type Log } from "./log.js";
import { createReadiness } from "./readiness.js";
import { createSyncHandler } from "./sync.js";
import { startWorkers, type Workers } from "./workers.js";

export interface Listening {
  /** Undefined where the configuration has no routes: then there is no gateway. */
  gateway: Address | undefined;
  control: Address;
}

export interface Service {
  /** Kept when everything listens. Broken, with nothing left behind, where something cannot. */
  readonly ready: Promise<Listening>;
  readonly log: Log;
  /** Stops accepting, lets finish what runs, returns all tokens; within `timeouts.shutdown_ms`. At any time. */
  stop(): Promise<void>;
}

export function serve(config: Config): Service {
  const log = createLog({ level: config.log.level, node: config.node_id });
  const store = openStore(config.store, { deadlineMs: config.lease.timeout_ms });
  const quota = createQuota(store, clusterPolicy(config));
  const apps = limitedApps(config);
  const { plane_token, allow, hosts } = config.control;
  const control = createControl({
    sync: createSyncHandler({ quota, apps, configVersion: configVersion(config), timeoutMs: config.lease.timeout_ms }),
    isStoreReady: createReadiness(store),
    planeToken: plane_token,
    ...{ allow, hosts, log },
  });
  const { cluster } = config;
  const coordinator = createCoordinator({
    ...{ quota, store, clusterId: cluster.id, node: config.node_id, apps: () => apps },
    intervals: { reconcileMs: cluster.reconcile_interval_ms, cooldownMs: cluster.emergency_cooldown_ms },
    automaticEmergency: cluster.automatic_emergency,
    driftTolerance: cluster.reconcile_tolerance,
    observer: {
      emergencyChanged: ({ active, source }) => log.warn({ active, source }, "emergency changed"),
      failed: (doing, error) => log.debug({ doing, err: error }, "coordination failed"),
    },
  });
  coordinator.onEmergency(({ active }) => workers?.tell({ worker: "emergency", active }));
  let workers: Workers | undefined;
  let stopping = false;

  async function stop(): Promise<void> {
    stopping = true;
    const { shutdown_ms } = config.timeouts;
    // Tokens are returned when the last exchange has ended, and that takes a call of the store.
    const graceMs = Math.max(shutdown_ms - config.lease.timeout_ms, shutdown_ms / 2);
    await workers?.stop(graceMs, shutdown_ms);
    await closeRest();
  }

  async function closeRest(): Promise<void> {
    await Promise.all([control.close(), coordinator.close()]);
    await store.close();
  }

  async function start(): Promise<Listening> {
    const controlAddress = await listen(control.server, "control.listen", config.control.listen);
    if (stopping || config.routes.length === 0) {
      if (!stopping) log.warn({}, "there are no routes: the gateway is off, and only the control listener runs");
      return { gateway: undefined, control: controlAddress };
    }
    workers = startWorkers({
      count: config.workers,
      start: (number) => ({ worker: "start", config, node: `${config.node_id}-${number}` }),
      forked: (worker) => {
        if (config.store === "embedded") serveStore(store, worker.process);
      },
      log,
    });
    const gateway = await workers.ready;
    log.info(
      { listen: `${gateway.host}:${gateway.port}`, workers: config.workers, kind: store.kind },
      "gateway listens",
    );
    void warnAboutStore(store, log);
    return { gateway, control: controlAddress };
  }

  const ready = start().catch(async (error: unknown) => {
    await workers?.kill();
    await closeRest();
    throw error;
  });
  return { ready, log, stop };
}

/** What an operator should know of the store at the start. That it does not answer is said by readiness. */
async function warnAboutStore(store: { inspect(): Promise<{ warnings: string[] }> }, log: Log): Promise<void> {
  const facts = await store.inspect().catch(() => undefined);
  if (facts === undefined) log.warn({}, "the store does not answer yet");
  for (const warning of facts?.warnings ?? []) log.warn({ warning }, "the store needs attention");
}
