/** What operations work with: the parts of the service, and values that several operations need. */
import type { LiveConfig } from "../../config/live/live.js";
import { nearest } from "../../config/nearest.js";
import type { Pod } from "../../config/options/slots.js";
import { quoted } from "../../config/problem.js";
import type { Config } from "../../config/schema.js";
import { UNKNOWN_APP } from "../../core/codes.js";
import type { AppLimits } from "../../core/limits.js";
import type { Coordinator } from "../../quota/coordinator.js";
import type { Quota } from "../../quota/quota.js";
import type { Slots } from "../../slots/slots.js";
import type { Store, StoreFacts } from "../../store/store.js";
import type { NodeReport, ReportRequest, Reports } from "../metrics/reports.js";
import { ifAvailable, READ_MS, within } from "./deadline.js";
import type { Pin } from "./pin.js";
import { problem, type Reply } from "./reply.js";

/** One report of each worker that replies in time. */
export type Ask = <R extends ReportRequest>(request: R) => Promise<Reports[R["kind"]][]>;

export interface OperationsOptions {
  /** The name of this service. */
  node: string;
  /** The version of the program. */
  version: string;
  live: Pick<LiveConfig, "current" | "version" | "loadedAtMs" | "lastError" | "reload" | "layer" | "putLayer">;
  apps(): readonly AppLimits[];
  quota: Pick<Quota, "inspect" | "nodes" | "ledger">;
  coordinator: Pick<Coordinator, "emergency" | "emergencyOn" | "emergencyOff" | "reconcileNow" | "borrow" | "repay">;
  store: Pick<Store, "kind" | "inspect">;
  slots: Pick<Slots, "counts">;
  pods(): readonly Pod[];
  ask: Ask;
  /** Number of workers that should listen and that do. None are expected without a gateway. */
  workers(): { expected: number; listening: number };
  pin: Pin;
  /** The degradation level that is sent to data planes. */
  serviceLevel(): number;
  state(): "starting" | "running" | "stopping";
  /** Number of metrics; 0 if they are disabled. */
  metricsSize(): number;
  /** Unix time in milliseconds. */
  wallClock?: () => number;
}

export interface OperationsContext extends OperationsOptions {
  /** Facts about the store, read at most once per second. Undefined if the store does not answer. */
  storeFacts(): Promise<StoreFacts | undefined>;
  /** The reports of all workers that reply in time. */
  reports(): Promise<NodeReport[]>;
  /** The pinned level, or the highest level of all workers. */
  level(reports: readonly NodeReport[]): number;
  /** Size of the current configuration as JSON. */
  configBytes(): number;
  findApp(id: string): AppLimits | undefined;
  /** The reply for an app that is not configured, with the name that was probably meant. */
  noSuchApp(id: string): Reply<never>;
  now(): number;
  timestamp(): string;
  uptimeSeconds(): number;
}

const FRESH_MS = 1_000;
/** Comparing more names would take too long. */
const MOST_COMPARED = 10_000;

export function createContext(options: OperationsOptions): OperationsContext {
  const now = options.wallClock ?? Date.now;
  const started = performance.now();
  let measured: { config: Config; bytes: number } | undefined;
  let facts: Promise<StoreFacts | undefined> | undefined;
  let factsAt = 0;
  return {
    ...options,
    now,
    timestamp: () => new Date(now()).toISOString(),
    uptimeSeconds: () => Math.round((performance.now() - started) / 100) / 10,
    storeFacts() {
      if (facts === undefined || performance.now() - factsAt > FRESH_MS) {
        factsAt = performance.now();
        facts = within(READ_MS, options.store.inspect()).then(
          (found) => (found.connectedNodes > 0 ? found : undefined),
          () => undefined,
        );
      }
      return facts;
    },
    reports: async () => (await ifAvailable(options.ask({ kind: "report" }))) ?? [],
    level(reports) {
      const pinned = options.pin.current();
      if (pinned !== undefined) return pinned.level;
      return reports.length === 0 ? options.serviceLevel() : Math.max(...reports.map(({ level }) => level));
    },
    configBytes() {
      const config = options.live.current();
      if (measured?.config !== config) measured = { config, bytes: Buffer.byteLength(JSON.stringify(config)) };
      return measured.bytes;
    },
    findApp: (id) => options.apps().find((app) => app.id === id),
    noSuchApp(id) {
      const known = options.apps().slice(0, MOST_COMPARED);
      const likely = nearest(
        id,
        known.map((app) => app.id),
      );
      return problem(404, UNKNOWN_APP, `there is no app ${quoted(id)} in the configuration`, {
        field: "app_id",
        ...(likely === undefined ? {} : { detail: `did you mean ${likely}?` }),
      });
    },
  };
}
