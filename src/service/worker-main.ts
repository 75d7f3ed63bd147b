/** A worker process: one gateway with its own lease. The primary tells it when to begin and when to stop. */
import type { Config } from "../config/schema.js";
import { createIpcStore } from "../store/ipc/ipc-store.js";
import { openStore } from "../store/open.js";
import type { Store } from "../store/store.js";
import { createGateway, type Gateway } from "./gateway.js";
import { listen } from "./listen.js";
import { createLog } from "./log.js";
import { type FromWorker, isWorkerMessage, type ToWorker } from "./worker-messages.js";

let gateway: Gateway | undefined;
let store: Store | undefined;
let graceMs = 10_000;
let starting: Promise<void> | undefined;
let stopping = false;

// A signal for the whole group is the primary's to obey: it tells the workers.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => {});

process.on("message", (message: unknown) => {
  if (!isWorkerMessage(message)) return;
  const told = message as ToWorker;
  if (told.worker === "start") starting ??= start(told.config, told.node);
  else if (told.worker === "emergency") gateway?.limiter.setEmergency(told.active);
  else void stop(told.graceMs);
});
tell({ worker: "hello" });
// The primary is gone, and with it the socket that new connections come from.
process.on("disconnect", () => void stop(graceMs));

async function start(config: Config, node: string): Promise<void> {
  try {
    graceMs = config.timeouts.shutdown_ms;
    const deadline = { deadlineMs: config.lease.timeout_ms };
    store = config.store === "embedded" ? createIpcStore(process, deadline) : openStore(config.store, deadline);
    gateway = createGateway({ config, node, store, log: createLog({ level: config.log.level, node }) });
    const address = await listen(gateway.proxy.server, "listen", config.listen);
    tell({ worker: "listening", ...address });
  } catch (error) {
    tell({ worker: "failed", reason: error instanceof Error ? error.message : String(error) });
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
