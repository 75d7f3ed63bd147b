/** The whole service on one machine: the primary with store, coordinator and control listener, and its workers. */
import { packConfig } from "../../config/equal-apps.js";
import { createLiveConfig } from "../../config/live/live.js";
import { storeOptions } from "../../config/options/limiter.js";
import type { Config } from "../../config/schema.js";
import type { Address } from "../../config/values.js";
import type { Environment } from "../../config/variables.js";
import { patternWarnings } from "../../config/warnings.js";
import { surviveErrors } from "../../shared/background.js";
import { createCertificates } from "../../shared/tls/certificates.js";
import { serveStore } from "../../store/ipc/serve-store.js";
import { observeStore, type StoreObserver } from "../../store/observed-store.js";
import { openStore } from "../../store/open.js";
import { createControlPlane } from "./control-plane.js";
import { listen } from "./listen.js";
import { createLog } from "./log.js";
import { listenerTls, storeTls } from "./tls.js";
import { createWorkers } from "./workers.js";

export interface ServeOptions {
  /** From the file, the environment and the command line. */
  config: Config;
  /** The text that `config` was read from. */
  yaml: string;
  /** The file with this text. It is watched for changes. */
  file?: string | undefined;
  env: Environment;
  /** Applies the command-line options each time the file is read. */
  overrides?: (config: Config) => Config;
  /** Names of the options that the command line sets. */
  commandLine?: readonly string[];
  /** Callers on this machine need no token: only for the demo. */
  isOpen?: boolean;
}

const MOST_WARNINGS = 20;

export type Service = ReturnType<typeof serve>;
export type Listening = Awaited<Service["ready"]>;

export function serve({ config: initial, file, yaml, env, overrides, commandLine, isOpen }: ServeOptions) {
  const { node_id: node, store: storeUrl, control: controlOptions } = initial;
  let lineLost: (() => void) | undefined;
  const log = createLog({ level: initial.log.level, node, lost: () => lineLost?.() });
  const certificates = createCertificates();
  let observer: StoreObserver | undefined;
  const plainStore = openStore(storeUrl, { ...storeOptions(initial), ...storeTls(initial, log, certificates) });
  const store = observeStore(plainStore, {
    called: (command, outcome, seconds) => observer?.called(command, outcome, seconds),
  });
  const live = createLiveConfig({
    initial,
    file,
    env,
    store,
    log,
    clusterId: initial.cluster.id,
    node,
    yaml,
    overrides,
    commandLine,
  });
  let state: "starting" | "running" | "stopping" = "starting";
  const workers = createWorkers({
    expected: workersFor(initial),
    start: (number) => ({ worker: "start", ...active(), node: `${node}-${number}` }),
    forked: (worker) => {
      // Workers count their own calls, so they get the store without the observer.
      if (storeUrl === "embedded") serveStore(plainStore, worker.process);
    },
    listens: (send) => {
      const pinned = plane.pinned();
      if (pinned !== undefined) send({ worker: "pin", level: pinned.level, durationMs: pinned.leftMs });
    },
    restarted: (reason) => plane.workerRestarted(reason),
    log,
  });
  const plane = createControlPlane({ live, store, log, state: () => state, workers, certificates, isOpen });
  observer = plane.storeObserver;
  lineLost = plane.logLineLost;
  surviveErrors((task, error) => {
    plane.backgroundFailed(task);
    log.error({ task, err: error }, "an error in the background");
  });
  const warn = (config: Config) => {
    for (const { path, reason } of patternWarnings(config).slice(0, MOST_WARNINGS)) log.warn({ path }, reason);
  };
  warn(initial);
  live.onChange((config, before) => {
    if (config.limits !== before.limits) warn(config);
    log.setLevel(config.log.level);
    plane.reconfigure(config);
    workers.send({ worker: "config", ...active() });
  });

  function active() {
    return { config: packConfig(live.current()), version: live.version() };
  }

  /** Stops accepting, finishes running requests and returns all tokens, within `timeouts.shutdown_ms`. */
  async function stop(): Promise<void> {
    state = "stopping";
    const { lease, timeouts } = live.current();
    const { shutdown_ms } = timeouts;
    // After the last exchange, returning the tokens takes one more store call.
    const graceMs = Math.max(shutdown_ms - lease.timeout_ms, shutdown_ms / 2);
    await workers.stop(graceMs, shutdown_ms);
    await closeRest();
  }

  async function closeRest(): Promise<void> {
    await Promise.all([plane.close(), live.close()]);
    await store.close();
    log.flush();
  }

  async function start() {
    const control = await listen({
      server: plane.server,
      option: "control.listen",
      address: controlOptions.listen,
      limits: plane.connectionLimits,
      tls: listenerTls({
        name: "control.tls",
        section: controlOptions.tls,
        protocols: ["http/1.1"],
        log,
        certificates,
        handshakeFailed: plane.handshakeFailed,
      }),
    });
    void store.inspect().then(
      ({ warnings }) => {
        for (const warning of warnings) log.warn({ warning }, "store warning");
      },
      (error: Error) => log.warn({ error: error.message }, "the store is not available"),
    );
    // Apply the store layer before the first request. If the store is unavailable it is applied later.
    await live.reload({ source: "store", force: false }).catch(() => undefined);
    await plane.verifyShards();
    await plane.startExport();
    const count = state === "stopping" ? 0 : workersFor(live.current());
    const { gateway, envoy } = await workers.start(count);
    if (state === "starting") state = "running";
    if (state === "running" && count === 0) log.warn({}, "no routes configured: only the control listener runs");
    const fields = { workers: count, kind: store.kind, config: live.version() };
    if (gateway !== undefined) log.info({ listen: text(gateway), ...fields }, "gateway listens");
    if (envoy !== undefined) log.info({ listen: text(envoy), ...fields }, "Envoy listener listens");
    return { gateway, envoy, control };
  }

  /** Resolves when everything listens. If it rejects, everything has been stopped. */
  const ready = start().catch(async (error: unknown) => {
    await workers.kill();
    await closeRest();
    throw error;
  });
  return {
    ready,
    log,
    /** Reads the configuration again. Errors are logged and change nothing. */
    async reload(): Promise<void> {
      await live.reload({ source: "all", force: false });
    },
    stop,
  };
}

/** Workers serve routes and Envoy. Their number cannot change while the service runs. */
function workersFor({ routes, envoy, workers }: Config): number {
  return routes.length === 0 && envoy.listen === undefined ? 0 : workers;
}

const text = ({ host, port }: Address) => `${host}:${port}`;
