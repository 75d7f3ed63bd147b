/** Messages between the primary and its workers, besides those of the store. */
import type { PackedConfig } from "../../config/equal-apps.js";
import type { Address } from "../../config/values.js";
import type { ReportRequest, Reports } from "../metrics/reports.js";

export type ToWorker =
  | { worker: "start"; config: PackedConfig; version: string; node: string }
  /** The new configuration. Already validated; nothing in it needs a restart. */
  | { worker: "config"; config: PackedConfig; version: string }
  | { worker: "emergency"; active: boolean }
  /** Pins the degradation level; a duration of 0 unpins it. */
  | { worker: "pin"; level: number; durationMs: number }
  | { worker: "ask"; id: number; request: ReportRequest }
  /** To be answered at once with `pong`. */
  | { worker: "ping" }
  /** Stop accepting, finish running requests within the grace period, return all tokens, exit. */
  | { worker: "stop"; graceMs: number };

/** The addresses on which a worker listens. */
export interface WorkerListens {
  /** Undefined if the configuration has no routes: then there is no gateway. */
  gateway?: Address | undefined;
  /** Undefined if `envoy.listen` is not set. */
  envoy?: Address | undefined;
}

export type FromWorker =
  /** Ready for messages. Messages sent earlier may be lost. */
  | { worker: "hello" }
  | ({ worker: "listening" } & WorkerListens)
  | { worker: "pong" }
  /** Undefined: it could not be made. */
  | { worker: "report"; id: number; report: Reports[ReportRequest["kind"]] | undefined }
  /** Cannot start, and a retry would not help. */
  | { worker: "failed"; reason: string };

export function isWorkerMessage(message: unknown): message is ToWorker | FromWorker {
  return typeof message === "object" && message !== null && "worker" in message;
}
