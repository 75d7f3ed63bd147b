/** The worker processes: as many as were asked for, a crashed one replaced, all ended together and in time. */
import cluster, { type Worker } from "node:cluster";
import { fileURLToPath } from "node:url";
import { type Clock, systemClock } from "../../shared/clock.js";
import type { Log } from "../../shared/log.js";
import type { Answers, Question } from "../metrics/node-report.js";
import { type FromWorker, isWorkerMessage, type ToWorker, type WorkerListens } from "./worker-messages.js";

export interface WorkersOptions {
  count: number;
  /** What a worker is told first. Workers are numbered from 1; a replacement has the number of the one it replaces. */
  start(number: number): ToWorker;
  /** A worker has been forked: the place to serve it whatever it needs. */
  forked(worker: Worker): void;
  /** A worker listens: the place to tell it what it may have missed. */
  listens?(tell: (message: ToWorker) => void): void;
  log: Log;
  clock?: Clock;
}

export interface Workers {
  /** Kept when every worker listens; broken when one cannot begin. */
  readonly ready: Promise<WorkerListens>;
  tell(message: ToWorker): void;
  /** How many listen now. */
  listening(): number;
  /** The answers of those that listen and answer in time. */
  ask<Q extends Question>(question: Q, withinMs: number): Promise<Answers[Q["kind"]][]>;
  /** Whoever is still there after the time is killed. */
  stop(graceMs: number, killMs: number): Promise<void>;
  /** Ends them at once. */
  kill(): Promise<void>;
}

/** A question that not everyone has answered. */
interface Asked {
  heard(worker: Worker, answer: Answers[Question["kind"]]): void;
  /** Nothing more is to be expected of this one. */
  doneWith(gone: Worker): void;
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

export function startWorkers({ count, start, forked, listens, log, clock = systemClock }: WorkersOptions): Workers {
  const running = new Map<number, Worker>();
  const listening = new Set<number>();
  const crashes = new Map<number, number>();
  const asked = new Map<number, Asked>();
  let lastQuestion = 0;
  let isReady = false;
  let stopping = false;
  let allGone = () => {};
  let resolveReady: (listens: WorkerListens) => void;
  let rejectReady: (error: Error) => void;
  const ready = new Promise<WorkerListens>((resolve, reject) => {
    resolveReady = resolve;
    rejectReady = reject;
  });

  function fork(number: number): void {
    const worker = cluster.fork();
    const begun = clock.now();
    running.set(number, worker);
    forked(worker);
    worker.on("message", (message: unknown) => {
      if (isWorkerMessage(message)) heard(number, worker, message as FromWorker);
    });
    // What cannot be sent to a worker that is about to end is answered by its end.
    worker.on("error", (error) => log.debug({ worker: number, err: error }, "a worker could not be told"));
    worker.on("exit", (code, signal) => {
      for (const { doneWith } of asked.values()) doneWith(worker);
      ended(number, code, signal, clock.now() - begun);
    });
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
    if (message.worker === "answer") {
      asked.get(message.id)?.heard(worker, message.answer);
      return;
    }
    listening.add(number);
    listens?.((told) => worker.send(told));
    if (isReady || listening.size < count) return;
    isReady = true;
    resolveReady({ gateway: message.gateway, envoy: message.envoy });
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
    clock.after(pauseMs, () => {
      if (!stopping) fork(number);
    });
  }

  function tell(message: ToWorker): void {
    for (const worker of running.values()) if (worker.isConnected()) worker.send(message);
  }

  function ask<Q extends Question>(question: Q, withinMs: number): Promise<Answers[Q["kind"]][]> {
    const waitedFor = new Set([...listening].flatMap((number) => running.get(number) ?? []));
    const answers: Answers[Q["kind"]][] = [];
    if (waitedFor.size === 0) return Promise.resolve(answers);
    const id = ++lastQuestion;
    return new Promise((resolve) => {
      function doneWith(gone: Worker): void {
        waitedFor.delete(gone);
        if (waitedFor.size === 0) end();
      }
      function end(): void {
        clearTimeout(timer);
        asked.delete(id);
        resolve(answers);
      }
      const timer = setTimeout(end, withinMs);
      asked.set(id, {
        doneWith,
        heard(worker, answer) {
          if (!waitedFor.has(worker)) return;
          answers.push(answer as Answers[Q["kind"]]);
          doneWith(worker);
        },
      });
      for (const worker of waitedFor) if (worker.isConnected()) worker.send({ worker: "ask", id, question });
    });
  }

  // Workers accept for themselves. Handed over by the primary, a connection on its way to a worker that is killed would never
  // be answered, and every new one would pass through two processes.
  cluster.schedulingPolicy = cluster.SCHED_NONE;
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
    ask,
    listening: () => listening.size,
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
