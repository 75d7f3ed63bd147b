/** A control listener on a free port, on any store, with workers whose reports the test defines, and functions to call it. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { stringify } from "yaml";
import { createLiveConfig, type LiveConfig } from "../../src/config/live/live.js";
import { readConfig } from "../../src/config/load.js";
import { appLimits, clusterOptions } from "../../src/config/options/limiter.js";
import { accessOptions } from "../../src/config/options/service.js";
import type { Config } from "../../src/config/schema.js";
import { type Coordinator, createCoordinator } from "../../src/quota/coordinator.js";
import { createQuota, type Quota } from "../../src/quota/quota.js";
import { createControl } from "../../src/service/control/control.js";
import { createRecentRecalls } from "../../src/service/control/plane-api/recent-recalls.js";
import { createSyncHandler, syncEndpoint } from "../../src/service/control/plane-api/sync.js";
import { createDashboard } from "../../src/service/dashboard/dashboard.js";
import type { AppReport } from "../../src/service/metrics/app-counters.js";
import { createPlaneTotals } from "../../src/service/metrics/plane-totals.js";
import type { NodeReport, ReportRequest } from "../../src/service/metrics/reports.js";
import { createContext, type OperationsOptions } from "../../src/service/operations/context.js";
import type { Endpoint } from "../../src/service/operations/endpoint.js";
import { operationEndpoints } from "../../src/service/operations/operations.js";
import { createPin, type Pin } from "../../src/service/operations/pin.js";
import { type Clock, systemClock } from "../../src/shared/clock.js";
import { createRouteSlots } from "../../src/slots/slots.js";
import type { Store } from "../../src/store/store.js";

export const PLANE_TOKEN = "plane-token-0123456789";
export const ADMIN_TOKEN = "admin-token-0123456789";

export interface LogLine {
  level: string;
  message: string;
  fields: Record<string, unknown>;
}

export interface ControlServerOptions {
  /** Overrides options of `baseConfig`, by section. */
  config?: Record<string, Record<string, unknown>>;
  /** The reports of the workers. */
  reports?: NodeReport[];
  appReports?: AppReport[][];
  deps?: Partial<OperationsOptions>;
  metrics?: OperationsOptions["metricsPage"];
  endpoints?: Endpoint[];
  /** The clock for logins and pinned levels. */
  clock?: Clock;
}

export interface ControlServer {
  url: string;
  port: number;
  logged: LogLine[];
  /** The lines of the audit log. */
  audited(): Record<string, unknown>[];
  quota: Quota;
  coordinator: Coordinator;
  live: LiveConfig;
  /** Rewrites the file with these sections replaced; a reload reads it. */
  writeFile(options: Record<string, Record<string, unknown>>): Promise<void>;
  pin: Pin;
  /** The levels that the workers were ordered to pin. */
  pinned: { level: number; durationMs: number }[];
  /** A sync message. */
  post(body: unknown, headers?: Record<string, string>): Promise<Response>;
  /** With the admin token. A string body is sent unchanged, others as JSON. The path is relative to /admin/ratelimit. */
  admin(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
  /** The same for any path. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
  /** The live feeds of the dashboard. */
  viewers(): number;
  close(): Promise<void>;
}

export const baseConfig: Record<string, Record<string, unknown>> = {
  cluster: { id: "c", capacity: 10_000, rate: 1_000, automatic_emergency: false },
  control: { admin_token: ADMIN_TOKEN, plane_token: PLANE_TOKEN, allow: ["127.0.0.0/8"] },
  apps: {
    video: { guaranteed: 100, burst: 1_000, priority: 1, on_store_failure: "closed" },
    loans: { guaranteed: 100, burst: 500, priority: 0, borrow: true },
    batch: { guaranteed: 10, burst: 50, priority: 3 },
  },
  upstreams: { sockets: { targets: ["127.0.0.1:9101", "http://127.0.0.1:9102"] } },
};

const socketLimits = {
  ...{ maxPerPod: 2, maxTotal: 0, maxPerApp: 0, ratePerSecond: 0, burst: 1, leaseMs: 30_000 },
  onStoreFailure: "closed" as const,
};

export async function startControl(store: Store, options: ControlServerOptions = {}): Promise<ControlServer> {
  const clock = options.clock ?? systemClock;
  const logged: LogLine[] = [];
  const log = testLog(logged);
  const written = { ...baseConfig, ...withBase(options.config ?? {}) };
  const { live, close: closeConfig, write } = await liveConfig(store, written);
  const quota = createQuota(store, clusterOptions(live.current()));
  let listed = appLimits(live.current());
  const apps = () => listed;
  live.onChange((config) => {
    listed = appLimits(config);
  });
  const coordinator = createCoordinator({
    quota,
    store,
    clusterId: "c",
    node: "gw",
    apps: () => [...apps()],
    // The tests start reconciliation.
    ...{ cooldownMs: 30_000, reconcileMs: 3_600_000, automaticEmergency: false, driftTolerance: 0.1 },
  });
  const pinned: ControlServer["pinned"] = [];
  const pin = createPin({ send: (level, durationMs) => pinned.push({ level, durationMs }), clock });
  const recalls = createRecentRecalls(quota, clock);
  const sync = createSyncHandler({
    quota,
    apps,
    configVersion: live.version,
    timeoutMs: () => 1_000,
    recalled: recalls.forNode,
    pinnedLevel: () => pin.current()?.level,
    // On a stopped clock: the response time of a busy machine is not tested here.
    clock: { now: () => 0 },
  });
  const answers = {
    report: options.reports ?? [],
    apps: options.appReports ?? [],
    metrics: [],
    activity: [],
    limits: [],
    sample: [],
  };
  const context = createContext({
    node: "gw",
    version: "1.2.3",
    live,
    apps,
    quota,
    coordinator,
    store,
    pin,
    slots: createRouteSlots(store, "c1"),
    pods: () => [{ route: "/ws/", upstream: "sockets", pod: "127.0.0.1:9101", limit: 2 }],
    connectionLimits: () => new Map([["/ws/", socketLimits]]),
    ask: async <Q extends ReportRequest>({ kind }: Q) => answers[kind] as never,
    workers: () => ({ expected: answers.report.length, listening: answers.report.length }),
    serviceLevel: sync.level,
    overload: () => ({ share: 0, causes: [] }),
    state: () => "running",
    metricsPage:
      options.metrics ?? (async () => ({ parts: Readable.from(["up 1\n"]), contentType: "text/plain; version=0.0.4" })),
    metricsSize: () => 42,
    recalled: recalls.list,
    planes: { totals: createPlaneTotals(), recent: () => [] },
    ...options.deps,
  });
  const dashboard = createDashboard({
    ...{ context, clock, clusterId: "c", isSecure: () => false },
    primaryTotals: () => ({ storeLatency: [], storeErrors: 0, connectionRefusals: {} }),
    sessionSeconds: () => live.current().control.session_seconds,
  });
  const control = createControl({
    endpoints: [
      ...operationEndpoints(context),
      ...dashboard.endpoints,
      syncEndpoint(sync),
      ...(options.endpoints ?? []),
    ],
    sessionToken: dashboard.sessionToken,
    onConfig: live.onChange,
    access() {
      return accessOptions(live.current());
    },
    log,
    version: "1.2.3",
    clock,
  });
  await new Promise<void>((resolve) => {
    control.server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = control.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const send = (method: string, path: string, token: string, body?: unknown, headers: Record<string, string> = {}) =>
    fetch(`${url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
  return {
    url,
    port,
    logged,
    quota,
    coordinator,
    live,
    pin,
    pinned,
    writeFile: write,
    audited: () => logged.flatMap(({ fields }) => (fields.audit === true ? [fields] : [])),
    post: (body, headers) => send("POST", "/v1/sync", PLANE_TOKEN, body, headers),
    admin: (method, path, body, headers) => send(method, `/admin/ratelimit${path}`, ADMIN_TOKEN, body, headers),
    call: (method, path, body, headers) => send(method, path, ADMIN_TOKEN, body, headers),
    viewers: dashboard.viewers,
    async close() {
      dashboard.close();
      recalls.close();
      await Promise.all([control.close(), coordinator.close(), closeConfig()]);
    },
  };
}

type Options = Record<string, Record<string, unknown>>;

function withBase(options: Options): Options {
  return Object.fromEntries(Object.entries(options).map(([name, own]) => [name, { ...baseConfig[name], ...own }]));
}

function testLog(lines: LogLine[]) {
  const at = (level: string) => (fields: Record<string, unknown>, message: string) => {
    lines.push({ level, fields, message });
  };
  return { debug: () => {}, info: at("info"), warn: at("warn"), error: at("error") };
}

/** A configuration in its own file, which is read only by an explicit reload. */
async function liveConfig(store: Store, options: Options) {
  const dir = await mkdtemp(join(tmpdir(), "tollgate-control-"));
  const file = join(dir, "tollgate.yaml");
  let written = options;
  const write = async (changed: Options) => {
    written = { ...written, ...changed };
    await writeFile(file, stringify(written));
  };
  await write({});
  const yaml = stringify(written);
  const { config, problems } = readConfig(yaml, {});
  if (config === undefined) throw new Error(JSON.stringify(problems));
  const live = createLiveConfig({
    initial: config as Config,
    yaml,
    file,
    env: {},
    store,
    clusterId: "c",
    node: "gw",
    log: testLog([]),
    watchFile: false,
  });
  const close = async () => {
    await live.close();
    await rm(dir, { recursive: true, force: true });
  };
  return { live, write, close };
}
