/** What the primary and its workers say to each other, besides what they say about the store. */
import type { Config } from "../config/schema.js";

export type ToWorker =
  | { worker: "start"; config: Config; node: string }
  | { worker: "emergency"; active: boolean }
  /** Stop accepting, finish what runs within the time, return all tokens, end. */
  | { worker: "stop"; graceMs: number };

export type FromWorker =
  /** It hears. What is said to a process before that may be lost. */
  | { worker: "hello" }
  | { worker: "listening"; host: string; port: number }
  /** It cannot begin, and another try would not help. */
  | { worker: "failed"; reason: string };

export function isWorkerMessage(message: unknown): message is ToWorker | FromWorker {
  return typeof message === "object" && message !== null && "worker" in message;
}
