/** The whole service on one machine: the primary with store, coordinator and control listener, and its workers. */
import { createLiveConfig, type LiveConfig } from "../../config/live.js";
import { storeOptions } from "../../config/options/limits.js";
import type { Config } from "../../config/schema.js";
import type { Address } from "../../config/values.js";
import type { Environment } from "../../config/variables.js";
import type { Log } from "../../shared/log.js";
import { serveStore } from "../../store/ipc/serve-store.js";
import { observeStore, type StoreObserver } from "../../store/observed-store.js";
import { openStore } from "../../store/open.js";
import { createControlPlane } from "./control-plane.js";
import { listen } from "./listen.js";
import { createLog } from "./log.js";
import { startWorkers, type Workers } from "./workers.js";

export interface ServeOptions {
  /** From the file, the environment and the command line. */
  config: Config;
  /** Followed, and read again when asked. */
  file?: string | undefined;
  /** In the place of a file. */
  yaml?: string;
  env: Environment;
  /** Puts in what the command line said, whenever the file is read again. */
  overrides?: (config: Config) => Config;
}

export interface Listening {
  /** Undefined where the configuration has no routes: then there is no gateway. */
  gateway: Address | undefined;
  /** Undefined where the configuration has no listener for Envoy. */
  envoy: Address | undefined;
  control: Address;
}

export interface Service {
  /** Kept when everything listens. Broken, with nothing left behind, where something cannot. */
  readonly ready: Promise<Listening>;
  readonly log: Log;
  /** Reads the configuration again; what is wrong with it is logged, and changes nothing. */
  reload(): Promise<void>;
  /** Stops accepting, lets finish what runs, returns all tokens; within `timeouts.shutdown_ms`. At any time. */
  stop(): Promise<void>;
}

/** A worker that does not answer an operator's question within this time is left out. */
const ANSWER_MS = 2_000;

export function serve({ config: initial, file, yaml, env, overrides }: ServeOptions): Service {
  const log = createLog({ level: initial.log.level, node: initial.node_id });
  let observer: StoreObserver | undefined;
  const plainStore = openStore(initial.store, storeOptions(initial));
  const store = observeStore(plainStore, {
    called: (command, outcome, seconds) => observer?.called(command, outcome, seconds),
  });
  const live: LiveConfig = createLiveConfig({
    ...{ initial, file, env, store, log, clusterId: initial.cluster.id, node: initial.node_id },
    ...(yaml === undefined ? {} : { yaml }),
    ...(overrides === undefined ? {} : { overrides }),
  });
  let workers: Workers | undefined;
  /** Whether there are workers at all is decided at the start. */
  let expected = workersFor(initial);
  let state: "starting" | "running" | "stopping" = "starting";
  const plane = createControlPlane({
    ...{ live, store, log },
    state: () => state,
    workers: {
      expected: () => expected,
      listening: () => workers?.listening() ?? 0,
      tell: (message) => workers?.tell(message),
      ask: (question) => workers?.ask(question, ANSWER_MS) ?? Promise.resolve([]),
    },
  });
  observer = plane.storeObserver;
  live.onChange((config) => {
    log.setLevel(config.log.level);
    plane.reconfigure(config);
    workers?.tell({ worker: "config", config });
  });

  async function stop(): Promise<void> {
    state = "stopping";
    const { lease, timeouts } = live.current();
    const { shutdown_ms } = timeouts;
    // Tokens are returned when the last exchange has ended, and that takes a call of the store.
    const graceMs = Math.max(shutdown_ms - lease.timeout_ms, shutdown_ms / 2);
    await workers?.stop(graceMs, shutdown_ms);
    await closeRest();
  }

  async function closeRest(): Promise<void> {
    await Promise.all([plane.close(), live.close()]);
    await store.close();
  }

  async function start(): Promise<Listening> {
    const control = await listen(plane.server, "control.listen", initial.control.listen);
    // What the store says holds from the first request on, unless the store is away: then it is followed later.
    await live.reload({ source: "store", force: false }).catch(() => undefined);
    expected = workersFor(live.current());
    if (state === "stopping" || expected === 0) {
      if (state !== "stopping")
        log.warn({}, "there are no routes: the gateway is off, and only the control listener runs");
      if (state === "starting") state = "running";
      return { gateway: undefined, envoy: undefined, control };
    }
    workers = startWorkers({
      count: initial.workers,
      start: (number) => ({ worker: "start", config: live.current(), node: `${initial.node_id}-${number}` }),
      forked: (worker) => {
        // Workers count their own calls.
        if (initial.store === "embedded") serveStore(plainStore, worker.process);
      },
      listens: (tell) => {
        const pinned = plane.pinned();
        if (pinned !== undefined) tell({ worker: "pin", level: pinned.level, durationMs: pinned.leftMs });
        // A change that came while this worker began.
        tell({ worker: "config", config: live.current() });
      },
      log,
    });
    const { gateway, envoy } = await workers.ready;
    if (state === "starting") state = "running";
    const facts = { workers: initial.workers, kind: store.kind, config: live.version() };
    if (gateway !== undefined) log.info({ listen: written(gateway), ...facts }, "gateway listens");
    if (envoy !== undefined) log.info({ listen: written(envoy), ...facts }, "the listener for Envoy listens");
    void warnAboutStore(store, log);
    return { gateway, envoy, control };
  }

  const ready = start().catch(async (error: unknown) => {
    await workers?.kill();
    await closeRest();
    throw error;
  });
  return {
    ready,
    log,
    async reload() {
      await live.reload({ source: "all", force: false });
    },
    stop,
  };
}

/** They take requests for routes, calls of Envoys, or both. The number cannot change while the service runs. */
function workersFor({ routes, envoy, workers }: Config): number {
  return routes.length === 0 && envoy.listen === undefined ? 0 : workers;
}

const written = ({ host, port }: Address) => `${host}:${port}`;

/** What an operator should know of the store at the start. That it does not answer is said by readiness. */
async function warnAboutStore(store: { inspect(): Promise<{ warnings: string[] }> }, log: Log): Promise<void> {
  const facts = await store.inspect().catch(() => undefined);
  if (facts === undefined) log.warn({}, "the store does not answer yet");
  for (const warning of facts?.warnings ?? []) log.warn({ warning }, "the store needs attention");
}
