/** A worker process: one gateway with its own lease. The primary tells it when to begin and when to stop. */
import { storeOptions } from "../../config/options/limits.js";
import type { Config } from "../../config/schema.js";
import { createIpcStore } from "../../store/ipc/ipc-store.js";
import { openStore } from "../../store/open.js";
import type { Store } from "../../store/store.js";
import { createGateway, type Gateway } from "./gateway.js";
import { listen } from "./listen.js";
import { createLog, type ProcessLog } from "./log.js";
import { type FromWorker, isWorkerMessage, type ToWorker } from "./worker-messages.js";

let gateway: Gateway | undefined;
let log: ProcessLog | undefined;
let store: Store | undefined;
let graceMs = 10_000;
let starting: Promise<void> | undefined;
let stopping = false;

// A signal for the whole group is the primary's to obey: it tells the workers.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

process.on("message", (message: unknown) => {
  if (!isWorkerMessage(message)) return;
  const told = message as ToWorker;
  switch (told.worker) {
    case "start":
      starting ??= start(told.config, told.node);
      break;
    case "emergency":
      gateway?.limiter.setEmergency(told.active);
      break;
    case "pin":
      gateway?.limiter.pinLevel(told.level, told.durationMs);
      break;
    case "config":
      reconfigure(told.config);
      break;
    case "ask":
      if (gateway !== undefined) tell({ worker: "answer", id: told.id, answer: gateway.answer(told.question) });
      break;
    case "stop":
      void stop(told.graceMs);
  }
});
tell({ worker: "hello" });
// The primary is gone, and with it the socket that new connections come from.
process.on("disconnect", () => void stop(graceMs));

async function start(config: Config, node: string): Promise<void> {
  try {
    graceMs = config.timeouts.shutdown_ms;
    log = createLog({ level: config.log.level, node });
    const options = storeOptions(config);
    store = config.store === "embedded" ? createIpcStore(process, options) : openStore(config.store, options);
    gateway = createGateway({ config, node, store, log });
    const { proxy, envoy } = gateway;
    const wanted = config.envoy.listen;
    tell({
      worker: "listening",
      gateway: config.routes.length === 0 ? undefined : await listen(proxy.server, "listen", config.listen),
      envoy: wanted === undefined ? undefined : await listen(envoy.server, "envoy.listen", wanted),
    });
  } catch (error) {
    tell({ worker: "failed", reason: error instanceof Error ? error.message : String(error) });
  }
}

function reconfigure(config: Config): void {
  if (gateway === undefined || stopping) return;
  graceMs = config.timeouts.shutdown_ms;
  log?.setLevel(config.log.level);
  try {
    gateway.reconfigure(config);
  } catch (error) {
    // It was checked before: whatever still goes wrong must not take the gateway down.
    log?.error({ err: error }, "a part of the new configuration could not be applied");
  }
}

async function stop(ms: number): Promise<void> {
  if (stopping) return;
  stopping = true;
  // A server that is about to listen cannot be closed yet.
  await starting;
  await gateway?.stop(ms);
  await store?.close();
  process.exit(0);
}

function tell(message: FromWorker): void {
  if (process.connected) process.send?.(message);
}
