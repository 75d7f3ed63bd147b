/** The worker processes: starts them, replaces crashed and unresponsive ones, collects their reports, and stops them in time. */
import cluster, { type Worker } from "node:cluster";
import { fileURLToPath } from "node:url";
import { runInBackground } from "../../shared/background.js";
import { systemClock as clock } from "../../shared/clock.js";
import type { Log } from "../../shared/log.js";
import type { ReportRequest, Reports } from "../metrics/reports.js";
import { createWatchdog } from "./watchdog.js";
import { type FromWorker, isWorkerMessage, type ToWorker, type WorkerListens } from "./worker-messages.js";

export interface WorkersOptions {
  /** How many will probably be started. Until then the service is not ready. */
  expected: number;
  /** The first message to a worker. Workers are numbered from 1; a replacement keeps the number. */
  start(number: number): ToWorker;
  /** Called for every new worker process. */
  forked(worker: Worker): void;
  /** Called when a worker listens, to send what it may have missed. */
  listens(send: (message: ToWorker) => void): void;
  /** A worker is replaced. */
  restarted?(reason: RestartReason): void;
  log: Log;
}

export type RestartReason = "crashed" | "unresponsive";

export type Workers = ReturnType<typeof createWorkers>;

/** Workers that take longer for a report are left out. */
const REPORT_TIMEOUT_MS = 2_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** A worker that ran for this long has started successfully: its next crash is the first again. */
const STABLE_MS = 30_000;
/** Give up after this many crashes in a row during start-up. */
const MAX_START_CRASHES = 3;

/** In `src` and in `dist`. */
const entry = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "worker-main.ts" : "worker-main.js", import.meta.url),
);

/**
 * Newer versions of Node let the young generation of each process grow to 192 MB, three times this. The gateway is not faster
 * with it.
 */
const SEMI_SPACE = "--max-semi-space-size=16";
const SEMI_SPACE_FLAG = /--max[-_]semi[-_]space[-_]size/;

/** The flags of this process, with a bound on the young generation unless the operator has set one. */
export function workerFlags(own: readonly string[], nodeOptions = ""): string[] {
  return SEMI_SPACE_FLAG.test(`${own.join(" ")} ${nodeOptions}`) ? [...own] : [...own, SEMI_SPACE];
}

export function createWorkers({ start, forked, listens, restarted, log, ...options }: WorkersOptions) {
  let { expected } = options;
  const running = new Map<number, Worker>();
  const listening = new Set<number>();
  /** Workers that listen and do not respond. */
  const silent = new Set<number>();
  const crashes = new Map<number, number>();
  /** By request: called with each report, and without one if the worker exits. */
  const pending = new Map<number, (worker: Worker, report?: Reports[ReportRequest["kind"]]) => void>();
  let lastRequest = 0;
  let isReady = false;
  let stopping = false;
  let allExited = () => {};
  const watchdog = createWatchdog({
    clock,
    ping(number) {
      const worker = running.get(number);
      if (worker?.isConnected() === true) worker.send({ worker: "ping" } satisfies ToWorker);
    },
    changed(number, isSilent) {
      // A worker that starts may take long on a busy machine.
      if (!listening.has(number)) return;
      if (isSilent) silent.add(number);
      else silent.delete(number);
      if (isSilent) log.warn({ worker: number }, "worker does not respond");
      else log.info({ worker: number }, "worker responds again");
    },
    replace(number, silentSeconds) {
      log.error({ worker: number, silent_s: silentSeconds }, "worker does not respond: killing it");
      unresponsive.add(number);
      running.get(number)?.process.kill("SIGKILL");
    },
  });
  /** Workers that were killed because they did not respond. */
  const unresponsive = new Set<number>();
  let resolveReady: (listens: WorkerListens) => void;
  let rejectReady: (error: Error) => void;
  const ready = new Promise<WorkerListens>((resolve, reject) => {
    resolveReady = resolve;
    rejectReady = reject;
  });

  function fork(number: number): void {
    const worker = cluster.fork();
    const started = clock.now();
    running.set(number, worker);
    watchdog.started(number, worker.process.pid ?? 0);
    forked(worker);
    worker.on("message", (message: unknown) => {
      if (isWorkerMessage(message)) runInBackground("message", () => received(number, worker, message as FromWorker));
    });
    // A worker that is about to exit cannot be sent to; its exit event follows.
    worker.on("error", (error) => log.debug({ worker: number, err: error }, "cannot send to worker"));
    worker.on("exit", (code, signal) => {
      for (const reported of pending.values()) reported(worker);
      ended(number, code, signal, clock.now() - started);
    });
  }

  /** Replaces a worker. Without descriptors it cannot be started, so this is repeated. */
  function forkAgain(number: number): void {
    if (stopping || runInBackground("timer", () => fork(number))) return;
    clock.after(LONGEST_PAUSE_MS, () => forkAgain(number));
  }

  function received(number: number, worker: Worker, message: FromWorker): void {
    switch (message.worker) {
      case "hello":
        worker.send(stopping ? { worker: "stop", graceMs: 0 } : start(number));
        return;
      case "failed":
        // During start-up the error is reported by `ready`.
        if (isReady) log.error({ worker: number, reason: message.reason }, "worker failed");
        else rejectReady(new Error(message.reason));
        worker.process.kill("SIGKILL");
        return;
      case "pong":
        watchdog.replied(number);
        return;
      case "report":
        pending.get(message.id)?.(worker, message.report);
        return;
      case "listening":
        listening.add(number);
        listens((missed) => worker.send(missed));
        if (isReady || listening.size < expected) return;
        isReady = true;
        resolveReady({ gateway: message.gateway, envoy: message.envoy });
    }
  }

  function ended(number: number, code: number | null, signal: string | null, livedMs: number): void {
    running.delete(number);
    listening.delete(number);
    silent.delete(number);
    watchdog.ended(number);
    const reason = unresponsive.delete(number) ? "unresponsive" : "crashed";
    if (running.size === 0) allExited();
    if (stopping) return;
    const inRow = livedMs >= STABLE_MS ? 0 : (crashes.get(number) ?? 0);
    crashes.set(number, inRow + 1);
    if (!isReady && inRow + 1 >= MAX_START_CRASHES) {
      rejectReady(new Error(`worker ${number} exits before it listens (${signal ?? `exit code ${code}`})`));
      return;
    }
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** inRow, LONGEST_PAUSE_MS);
    restarted?.(reason);
    log.error({ worker: number, reason, code, signal, restart_in_ms: pauseMs }, "worker crashed, restarting it");
    clock.after(pauseMs, () => {
      if (!stopping) forkAgain(number);
    });
  }

  function send(message: ToWorker): void {
    for (const worker of running.values()) if (worker.isConnected()) worker.send(message);
  }

  /** The reports of all workers that reply in time. */
  function ask<R extends ReportRequest>(request: R): Promise<Reports[R["kind"]][]> {
    const waiting = new Set([...listening].flatMap((number) => running.get(number) ?? []));
    const reports: Reports[R["kind"]][] = [];
    if (waiting.size === 0) return Promise.resolve(reports);
    const id = ++lastRequest;
    return new Promise((resolve) => {
      const timer = setTimeout(end, REPORT_TIMEOUT_MS);
      function end(): void {
        clearTimeout(timer);
        pending.delete(id);
        resolve(reports);
      }
      pending.set(id, (worker, report) => {
        if (waiting.delete(worker) && report !== undefined) reports.push(report as Reports[R["kind"]]);
        if (waiting.size === 0) end();
      });
      for (const worker of waiting) if (worker.isConnected()) worker.send({ worker: "ask", id, request });
    });
  }

  function untilExited(): Promise<void> {
    stopping = true;
    watchdog.close();
    if (running.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      allExited = resolve;
    });
  }

  function killAll(): void {
    for (const worker of running.values()) worker.process.kill("SIGKILL");
  }

  return {
    /** Resolves when every worker listens; rejects if one cannot start. */
    start(count: number): Promise<WorkerListens> {
      expected = count;
      // Workers accept connections themselves. With round-robin a connection on its way to a killed worker would never be
      // answered, and every new one would pass through two processes.
      cluster.schedulingPolicy = cluster.SCHED_NONE;
      cluster.setupPrimary({
        exec: entry,
        args: [],
        execArgv: workerFlags(process.execArgv, process.env.NODE_OPTIONS),
      });
      for (let number = 1; number <= count; number++) fork(number);
      return count === 0 ? Promise.resolve({}) : ready;
    },
    send,
    ask,
    /** How many should listen, and how many do and respond. */
    counts: () => ({ expected, listening: [...listening].filter((number) => !silent.has(number)).length }),
    /** Workers that still run after `killMs` are killed. */
    async stop(graceMs: number, killMs: number): Promise<void> {
      const exited = untilExited();
      send({ worker: "stop", graceMs });
      const timer = setTimeout(() => {
        log.warn({ workers: running.size }, "killing workers: the shutdown timeout has expired");
        killAll();
      }, killMs);
      await exited;
      clearTimeout(timer);
    },
    kill(): Promise<void> {
      const exited = untilExited();
      killAll();
      return exited;
    },
  };
}
