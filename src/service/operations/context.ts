/** What operations work with: the parts of the service, and values that several operations need. */
import type { LiveConfig } from "../../config/live/live.js";
import { nearest } from "../../config/nearest.js";
import type { Pod } from "../../config/options/slots.js";
import { quoted } from "../../config/problem.js";
import type { Config } from "../../config/schema.js";
import type { AppLimits } from "../../core/app-limits.js";
import { UNKNOWN_APP } from "../../core/codes.js";
import { ALL_APPS } from "../../core/keys.js";
import { shardOf } from "../../core/shard.js";
import type { Coordinator } from "../../quota/coordinator.js";
import type { Quota } from "../../quota/quota.js";
import type { OverloadState } from "../../shared/overload.js";
import type { RouteLimits } from "../../slots/route-limits.js";
import type { RouteSlots } from "../../slots/slots.js";
import { StoreError } from "../../store/errors.js";
import type { Store, StoreFacts } from "../../store/store.js";
import type { NodeReport, ReportRequest, Reports } from "../metrics/reports.js";
import type { ServiceMetrics } from "../metrics/service-metrics.js";
import { ifAvailable, READ_MS, within } from "./deadline.js";
import { problem, Rejected } from "./endpoint.js";
import type { Pin } from "./pin.js";

/** One report of each worker that replies in time. */
export type Ask = <R extends ReportRequest>(request: R) => Promise<Reports[R["kind"]][]>;

export interface OperationsOptions {
  /** The name of this service. */
  node: string;
  /** The version of the program. */
  version: string;
  live: Pick<
    LiveConfig,
    | "current"
    | "version"
    | "loadedAtMs"
    | "lastError"
    | "reload"
    | "layer"
    | "activeLayer"
    | "putLayer"
    | "effective"
    | "tryFile"
  >;
  apps(): readonly AppLimits[];
  quota: Pick<
    Quota,
    "inspect" | "nodes" | "holdings" | "ledger" | "cluster" | "credit" | "of" | "shards" | "states" | "limits"
  >;
  /** Apps whose tokens were recalled in the last seconds; "*" stands for all, "*3" for all of shard 3. */
  recalled(): string[];
  coordinator: Pick<
    Coordinator,
    "emergency" | "emergencyOn" | "emergencyOff" | "reconcileNow" | "borrow" | "repay" | "refillCluster"
  >;
  store: Pick<Store, "kind" | "inspect">;
  slots: Pick<RouteSlots, "of">;
  pods(): readonly Pod[];
  /** By route. */
  connectionLimits(): ReadonlyMap<string, RouteLimits>;
  ask: Ask;
  /** What data planes reported with their syncs. */
  planes: ServiceMetrics["planes"];
  /** Number of workers that should listen and that do. None are expected without a gateway. */
  workers(): { expected: number; listening: number };
  pin: Pin;
  /** Of this process. Workers state theirs in their reports. */
  overload(): OverloadState;
  /** The degradation level that is sent to data planes. */
  serviceLevel(): number;
  state(): "starting" | "running" | "stopping";
  /** Undefined if metrics are disabled. */
  metricsPage(): Promise<{ parts: AsyncIterable<string>; contentType: string } | undefined>;
  /** Number of metrics; 0 if they are disabled. */
  metricsSize(): number;
}

export type OperationsContext = ReturnType<typeof createContext>;

/** The reply of `findApp`, for the OpenAPI document. */
export const unknownApp = { 404: { summary: "The app is not configured." } };

const FRESH_MS = 1_000;
/** Comparing more names would take too long. */
const MOST_COMPARED = 10_000;

export function createContext(options: OperationsOptions) {
  const started = performance.now();
  let measured: { config: Config; bytes: number } | undefined;
  let facts: Promise<StoreFacts | undefined> | undefined;
  let factsAt = 0;
  let denial: string | undefined;
  return {
    ...options,
    timestamp: () => new Date().toISOString(),
    uptimeSeconds: () => Math.round((performance.now() - started) / 100) / 10,

    /** Facts about the store, read at most once per second. Undefined if the store does not answer. */
    storeFacts() {
      if (facts === undefined || performance.now() - factsAt > FRESH_MS) {
        factsAt = performance.now();
        facts = within(READ_MS, options.store.inspect()).then(
          (found) => {
            denial = undefined;
            return found.connectedNodes > 0 ? found : undefined;
          },
          (error: unknown) => {
            denial = error instanceof StoreError && error.kind === "denied" ? error.message : undefined;
            return undefined;
          },
        );
      }
      return facts;
    },

    /** Why the last `storeFacts` was undefined. */
    storeProblem: () =>
      denial === undefined ? "The store does not answer." : `${denial} Check its user and password.`,

    /** The reports of all workers that reply in time. */
    reports: async () => (await ifAvailable(options.ask({ kind: "report" }))) ?? [],

    /** The pinned level, or the highest level of all workers. */
    level(reports: readonly NodeReport[]): number {
      const pinned = options.pin.current();
      if (pinned !== undefined) return pinned.level;
      return reports.length === 0 ? options.serviceLevel() : Math.max(...reports.map(({ level }) => level));
    },

    /** Whether tokens of the app were recalled in the last seconds. */
    isRecalled(app: string): boolean {
      const shard = shardOf(app, options.quota.shards.length);
      return options.recalled().some((one) => one === app || one === ALL_APPS || one === `${ALL_APPS}${shard}`);
    },

    /** Size of the current configuration as JSON. */
    configBytes() {
      const config = options.live.current();
      if (measured?.config !== config) measured = { config, bytes: Buffer.byteLength(JSON.stringify(config)) };
      return measured.bytes;
    },

    /** Throws a Rejected if the app is not configured, with the name that was probably meant. */
    findApp(id: string): AppLimits {
      const apps = options.apps();
      const app = apps.find((one) => one.id === id);
      if (app !== undefined) return app;
      const names = apps.slice(0, MOST_COMPARED).map((one) => one.id);
      const likely = nearest(id, names);
      const more = { field: "app_id", ...(likely === undefined ? {} : { detail: `did you mean ${likely}?` }) };
      throw new Rejected(problem(404, UNKNOWN_APP, `there is no app ${quoted(id)} in the configuration`, more));
    },
  };
}
