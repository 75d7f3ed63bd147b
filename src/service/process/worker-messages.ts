/** What the primary and its workers say to each other, besides what they say about the store. */
import type { Config } from "../../config/schema.js";
import type { Address } from "../../config/values.js";
import type { Answers, Question } from "../metrics/node-report.js";

export type ToWorker =
  | { worker: "start"; config: Config; node: string }
  /** The configuration in force from now on. Already checked; nothing in it needs a restart. */
  | { worker: "config"; config: Config }
  | { worker: "emergency"; active: boolean }
  /** Holds the degradation level for a time. */
  | { worker: "pin"; level: number; durationMs: number }
  | { worker: "ask"; id: number; question: Question }
  /** Stop accepting, finish what runs within the time, return all tokens, end. */
  | { worker: "stop"; graceMs: number };

/** Where a worker takes requests, and calls of Envoys, where it does. */
export interface WorkerListens {
  gateway?: Address | undefined;
  envoy?: Address | undefined;
}

export type FromWorker =
  /** It hears. What is said to a process before that may be lost. */
  | { worker: "hello" }
  | ({ worker: "listening" } & WorkerListens)
  | { worker: "answer"; id: number; answer: Answers[Question["kind"]] }
  /** It cannot begin, and another try would not help. */
  | { worker: "failed"; reason: string };

export function isWorkerMessage(message: unknown): message is ToWorker | FromWorker {
  return typeof message === "object" && message !== null && "worker" in message;
}
