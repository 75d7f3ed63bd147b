/** A worker process: one gateway with its own leases, started and stopped by the primary. */
import { unpackConfig } from "../../config/equal-apps.js";
import { storeOptions } from "../../config/options/limiter.js";
import { otelOptions } from "../../config/options/service.js";
import type { Config } from "../../config/schema.js";
import { runInBackground, surviveErrors } from "../../shared/background.js";
import { createCertificates } from "../../shared/tls/certificates.js";
import { createIpcStore } from "../../store/ipc/ipc-store.js";
import { openStore } from "../../store/open.js";
import type { Store } from "../../store/store.js";
import type { ReportRequest, Reports } from "../metrics/reports.js";
import { startTracing } from "../telemetry/tracing.js";
import { createGateway, type Gateway } from "./gateway.js";
import { listen } from "./listen.js";
import { createLog, type ProcessLog } from "./log.js";
import { listenerTls, storeTls } from "./tls.js";
import { programVersion } from "./version.js";
import { type FromWorker, isWorkerMessage, type ToWorker, type WorkerListens } from "./worker-messages.js";

let gateway: Gateway | undefined;
let log: ProcessLog | undefined;
let store: Store | undefined;
let graceMs = 10_000;
let starting: Promise<void> | undefined;
let stopping = false;
/** The last configuration that arrived before the gateway existed. */
let missed: (ToWorker & { worker: "config" }) | undefined;

// Signals to the process group are handled by the primary, which stops the workers.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

process.on("message", (message: unknown) => {
  if (isWorkerMessage(message)) runInBackground("message", () => handle(message as ToWorker));
});
surviveErrors((task, error) => {
  gateway?.backgroundFailed(task);
  log?.error({ task, err: error }, "an error in the background");
});

function handle(received: ToWorker): void {
  switch (received.worker) {
    case "start":
      starting ??= start(received);
      break;
    case "emergency":
      gateway?.limiter.setEmergency(received.active);
      break;
    case "pin":
      gateway?.limiter.pinLevel(received.level, received.durationMs);
      break;
    case "config":
      if (gateway === undefined) missed = received;
      else reconfigure(unpackConfig(received.config), received.version);
      break;
    case "ask":
      answer(received);
      break;
    case "ping":
      send({ worker: "pong" });
      break;
    case "stop":
      void stop(received.graceMs);
  }
}

/** Replies even if the report fails, so that the primary does not wait for it. */
function answer({ id, request }: ToWorker & { worker: "ask" }): void {
  if (gateway === undefined) return;
  const { report: create } = gateway;
  let report: Reports[ReportRequest["kind"]] | undefined;
  runInBackground("report", () => {
    report = create(request);
  });
  send({ worker: "report", id, report });
}

send({ worker: "hello" });
// The primary is gone, and with it the listening socket.
process.on("disconnect", () => void stop(graceMs));

async function start({ config: packed, version, node }: ToWorker & { worker: "start" }): Promise<void> {
  try {
    const config = unpackConfig(packed);
    graceMs = config.timeouts.shutdown_ms;
    log = createLog({ level: config.log.level, node, lost: () => gateway?.logLineLost() });
    const certificates = createCertificates();
    const options = { ...storeOptions(config), ...storeTls(config, log, certificates) };
    store = config.store === "embedded" ? createIpcStore(process, options) : openStore(config.store, options);
    const tracing = await startTracing({
      otel: otelOptions(config),
      node,
      version: programVersion(),
      failed: (exporter) => gateway?.exportFailed(exporter),
      log,
    });
    gateway = createGateway({ config, configVersion: version, node, store, certificates, tracing, log });
    if (missed !== undefined) reconfigure(unpackConfig(missed.config), missed.version);
    const { proxy, envoy, handshakeFailed, connectionLimits } = gateway;
    const protocols = ["h2", "http/1.1"];
    const gatewayTls = listenerTls({
      name: "tls",
      section: config.tls,
      protocols: config.tls?.http2 === false ? ["http/1.1"] : protocols,
      log,
      certificates,
      handshakeFailed: () => handshakeFailed("gateway"),
    });
    const envoyTls = listenerTls({
      name: "envoy.tls",
      section: config.envoy.tls,
      protocols,
      log,
      certificates,
      handshakeFailed: () => handshakeFailed("envoy"),
    });
    const listens: WorkerListens = {};
    if (config.routes.length > 0) {
      const { server } = proxy;
      const limits = connectionLimits.gateway;
      listens.gateway = await listen({ server, option: "listen", address: config.listen, tls: gatewayTls, limits });
    }
    if (config.envoy.listen !== undefined) {
      const { server } = envoy;
      const limits = connectionLimits.envoy;
      const address = config.envoy.listen;
      listens.envoy = await listen({ server, option: "envoy.listen", address, tls: envoyTls, limits });
    }
    send({ worker: "listening", ...listens });
  } catch (error) {
    send({ worker: "failed", reason: error instanceof Error ? error.message : String(error) });
  }
}

function reconfigure(config: Config, version: string): void {
  if (gateway === undefined || log === undefined || stopping) return;
  graceMs = config.timeouts.shutdown_ms;
  log.setLevel(config.log.level);
  try {
    gateway.reconfigure(config, version);
  } catch (error) {
    // The configuration was validated; an error here must not stop the gateway.
    log.error({ err: error }, "the new configuration was applied only in part");
  }
}

async function stop(ms: number): Promise<void> {
  if (stopping) return;
  stopping = true;
  // A server that is about to listen cannot be closed yet.
  await starting;
  await gateway?.stop(ms);
  await store?.close();
  log?.flush();
  process.exit(0);
}

function send(message: FromWorker): void {
  if (process.connected) process.send?.(message);
}
