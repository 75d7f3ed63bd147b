/** The worker processes: as many as were asked for, a crashed one replaced, all ended together and in time. */
import cluster, { type Worker } from "node:cluster";
import { fileURLToPath } from "node:url";
import type { Address } from "../config/values.js";
import { type Host, systemHost } from "../store/host.js";
import type { Log } from "./log.js";
import { type FromWorker, isWorkerMessage, type ToWorker } from "./worker-messages.js";

export interface WorkersOptions {
  count: number;
  /** What a worker is told first. Workers are numbered from 1; a replacement has the number of the one it replaces. */
  start(number: number): ToWorker;
  /** A worker has been forked: the place to serve it whatever it needs. */
  forked(worker: Worker): void;
  log: Log;
  host?: Host;
}

export interface Workers {
  /** Kept when every worker listens; broken when one cannot begin. */
  readonly ready: Promise<Address>;
  tell(message: ToWorker): void;
  /** Whoever is still there after the time is killed. */
  stop(graceMs: number, killMs: number): Promise<void>;
  /** Ends them at once. */
  kill(): Promise<void>;
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** Who lived this long did not die of how it began. */
const STABLE_MS = 30_000;
/** So many deaths in a row at the very start, and there is no sense in going on. */
const FUTILE = 3;

/** The same file seen from `src` and from `dist`. */
const entry = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "worker-main.ts" : "worker-main.js", import.meta.url),
);

export function startWorkers({ count, start, forked, log, host = systemHost }: WorkersOptions): Workers {
  const running = new Map<number, Worker>();
  const listening = new Set<number>();
  const crashes = new Map<number, number>();
  let isReady = false;
  let stopping = false;
  let allGone = () => {};
  let resolveReady: (address: Address) => void;
  let rejectReady: (error: Error) => void;
  const ready = new Promise<Address>((resolve, reject) => {
    resolveReady = resolve;
    rejectReady = reject;
  });

  function fork(number: number): void {
    const worker = cluster.fork();
    const begun = host.now();
    running.set(number, worker);
    forked(worker);
    worker.on("message", (message: unknown) => {
      if (isWorkerMessage(message)) heard(number, worker, message as FromWorker);
    });
    // What cannot be sent to a worker that is about to end is answered by its end.
    worker.on("error", (error) => log.debug({ worker: number, err: error }, "a worker could not be told"));
    worker.on("exit", (code, signal) => ended(number, code, signal, host.now() - begun));
  }

  function heard(number: number, worker: Worker, message: FromWorker): void {
    if (message.worker === "hello") {
      worker.send(stopping ? { worker: "stop", graceMs: 0 } : start(number));
      return;
    }
    if (message.worker === "failed") {
      // At the start, whoever waits for readiness tells it.
      if (isReady) log.error({ worker: number, reason: message.reason }, "worker failed");
      else rejectReady(new Error(message.reason));
      worker.process.kill("SIGKILL");
      return;
    }
    listening.add(number);
    if (isReady || listening.size < count) return;
    isReady = true;
    resolveReady({ host: message.host, port: message.port });
  }

  function ended(number: number, code: number | null, signal: string | null, livedMs: number): void {
    running.delete(number);
    listening.delete(number);
    if (running.size === 0) allGone();
    if (stopping) return;
    const inRow = livedMs >= STABLE_MS ? 0 : (crashes.get(number) ?? 0);
    crashes.set(number, inRow + 1);
    if (!isReady && inRow + 1 >= FUTILE) {
      rejectReady(new Error(`worker ${number} ends before it listens (${signal ?? `exit code ${code}`})`));
      return;
    }
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** inRow, LONGEST_PAUSE_MS);
    log.error({ worker: number, code, signal, again_in_ms: pauseMs }, "worker died, and is replaced");
    host.after(pauseMs, () => {
      if (!stopping) fork(number);
    });
  }

  function tell(message: ToWorker): void {
    for (const worker of running.values()) if (worker.isConnected()) worker.send(message);
  }

  cluster.setupPrimary({ exec: entry, args: [] });
  for (let number = 1; number <= count; number++) fork(number);

  function untilGone(): Promise<void> {
    stopping = true;
    if (running.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      allGone = resolve;
    });
  }

  function killAll(): void {
    for (const worker of running.values()) worker.process.kill("SIGKILL");
  }

  return {
    ready,
    tell,
    async stop(graceMs, killMs) {
      const gone = untilGone();
      tell({ worker: "stop", graceMs });
      const timer = setTimeout(() => {
        log.warn({ workers: running.size }, "workers killed at the end of the grace time");
        killAll();
      }, killMs);
      await gone;
      clearTimeout(timer);
    },
    kill() {
      const gone = untilGone();
      killAll();
      return gone;
    },
  };
}
