/** The metrics page: every metric of the catalog with its labels, as documented. */

import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, it } from "vitest";
import * as codes from "../../../../src/core/codes.js";
import { NO_EMERGENCY } from "../../../../src/quota/emergency-watch.js";
import { createQuota } from "../../../../src/quota/quota.js";
import { metrics } from "../../../../src/service/metrics/catalog.js";
import { connectionReasons, layerOf, reasons } from "../../../../src/service/metrics/labels.js";
import { createNodeMetrics } from "../../../../src/service/metrics/node-metrics.js";
import type { ProcessCounters } from "../../../../src/service/metrics/process-counters.js";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { readPage } from "../../../support/metrics-page.js";
import { decision, quietLimiter, refusal, serviceMetrics } from "./metrics-parts.js";

const endings: (() => void)[] = [];
afterEach(() => {
  for (const end of endings.splice(0)) end();
});

function connect({ slotObserver }: ProcessCounters): void {
  const taken = { allowed: true, code: "SUCCESS", route: "0", app: "video", pod: "10.0.0.1:80", withoutStore: false };
  slotObserver.decided({ ...taken, milliseconds: 2 });
  slotObserver.decided({ ...taken, allowed: false, code: "LIMIT_EXCEEDED", pod: "", milliseconds: 1 });
  slotObserver.decided({ ...taken, code: "LIMIT_EXCEEDED", dryRun: true, milliseconds: 1 });
  slotObserver.decided({ ...taken, allowed: false, code: "a new one", pod: "", milliseconds: 1 });
  slotObserver.lost(3);
  slotObserver.reclaimed();
}

const connections = (proxies: { proxy: string; active: number }[]) => ({
  pods: [{ route: "/ws/", upstream: "sockets", pod: "10.0.0.1:80", active: 5, limit: 8 }],
  proxies,
});

function startWorker(node: string, apps: string[] = []) {
  const worker = createNodeMetrics({ node, enabled: true, apps, limits: [], appLabels: 10 });
  endings.push(worker.close);
  return worker;
}

/** A service in which everything has happened at least once. */
async function fullPage() {
  const worker = startWorker("gw-1", ["video"]);
  worker.decided(decision(), 0.000_001);
  worker.decided(refusal(), 0.000_001);
  worker.decided(refusal({ app: "", code: "invalid_identity", source: "local" }), 0.000_001);
  const limit = {
    name: "per-user",
    cost: 1,
    remaining: 0,
    limit: 1,
    rate: 1,
    unit: "requests",
    allowed: true,
    code: "ok",
    dryRun: false,
  };
  worker.decided(decision({ limits: [limit] }), 0.000_001);
  worker.settled(decision());
  worker.deviated(decision(), 3, 0.5);
  worker.transferLimited(decision(), "delayed");
  worker.synced("ok", 3, 2);
  worker.synced("timeout", 1000, 1);
  worker.storeObserver.called("grant", "ok", 0.001);
  worker.storeObserver.called("grant", "timeout", 1);
  const balances = {
    ...{ tokens: 70, debt: 0, clusterTokens: 800, granted: 0, spent: 0, returned: 0 },
    ...{ emergency: false, emergencyLeftMs: 0 },
  };
  const twoShards = createQuota(createEmbeddedStore(), {
    id: "c",
    capacity: 800,
    rate: 10,
    nodeTtlMs: 3000,
    shards: 2,
  });
  const service = serviceMetrics({
    quota: {
      inspect: async () => balances,
      nodes: async () => [{ node: "gw-1@1", silentMs: 0, alive: true }],
      cluster: async () => ({
        ...{ tokens: 800, held: 0, capacity: 1000, reserve: 100, writtenOff: 0 },
        ...{ usage: 0, ownShort: false },
      }),
      shards: twoShards.shards,
      states: twoShards.states,
    },
    slots: async () => [{ route: "/ws/", upstream: "sockets", pod: "10.0.0.1:80", slots: 6 }],
    certificates: () => new Map([["tls", 1_800_000_000_000]]),
  });
  service.configReloaded("reloaded");
  service.configReloaded("refused");
  service.configReloaded("refused");
  service.storeObserver.called("emergency-check", "ok", 0.001);
  service.synced("ok", 4, 1);
  const gauges = { emergency: 0, outdated: 0, syncs: 9, failed_syncs: 1, memory_free_bytes: 4096 };
  service.counted("nginx-1", 5, { node: gauges, batch: 0, apps: [] });
  endings.push(service.close);
  const open = connections([{ proxy: "gw-1", active: 5 }]);
  const page = readPage(await text(service.page([worker.metrics(quietLimiter({ video: 40 }, 2), open)])));
  return { service, page };
}

const samplesOf = (name: string, type: string) =>
  type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name];

describe("the page of a service", () => {
  it("has each metric of the catalog, with its type and exactly its labels", async () => {
    const { page } = await fullPage();
    for (const [name, { type, labels }] of Object.entries(metrics)) {
      expect(page.types.get(name), name).toBe(type);
      for (const each of samplesOf(name, type)) {
        const samples = page.samples.filter((sample) => sample.name === each);
        expect(samples.length, each).toBeGreaterThan(0);
        const wanted = each.endsWith("_bucket") ? [...labels, "le"] : labels;
        for (const sample of samples) expect(Object.keys(sample.labels).sort(), each).toEqual([...wanted].sort());
      }
    }
  });

  it("has only these and the process metrics, and no sample twice", async () => {
    const { page, service } = await fullPage();
    const others = [...page.types.keys()].filter((name) => !Object.hasOwn(metrics, name));
    // The names of other Prometheus clients for Node.js: dashboards of operators use them.
    expect(others).toEqual([
      ...["process_cpu_user_seconds_total", "process_cpu_system_seconds_total", "process_cpu_seconds_total"],
      ...["process_start_time_seconds", "process_resident_memory_bytes", "process_virtual_memory_bytes"],
      ...["process_heap_bytes", "process_open_fds", "process_max_fds", "nodejs_active_resources"],
      ...["nodejs_active_handles", "nodejs_active_requests", "nodejs_heap_size_total_bytes"],
      ...["nodejs_heap_size_used_bytes", "nodejs_external_memory_bytes", "nodejs_heap_space_size_total_bytes"],
      ...["nodejs_heap_space_size_used_bytes", "nodejs_heap_space_size_available_bytes", "nodejs_version_info"],
      "nodejs_gc_duration_seconds",
    ]);
    expect(service.registrySize()).toBe(page.types.size);
    const seen = page.samples.map(({ name, labels }) => `${name} ${JSON.stringify(Object.entries(labels).sort())}`);
    expect(new Set(seen).size).toBe(seen.length);
    expect(page.samples.filter(({ value }) => Number.isNaN(value))).toEqual([]);
  });

  it("has the values of all parts of the service", async () => {
    const { page } = await fullPage();
    const said = {
      ratelimit_reconcile_rounds_total: 4,
      ratelimit_reconcile_corrections_total: 2,
      ratelimit_reconcile_recovered_tokens_total: 30,
      ratelimit_emergency_mode: 1,
      ratelimit_bursts_stopped: 0,
      ratelimit_config_last_reload_success_timestamp_seconds: 1_700_000_000,
      ratelimit_l1_tokens_available: 800,
      ratelimit_l2_tokens_available: 70,
      ratelimit_l3_tokens_local: 40,
      ratelimit_l3_cache_hit_ratio: 1,
      ratelimit_degradation_level: 2,
      ratelimit_live_nodes: 1,
      ratelimit_dead_nodes: 0,
      ratelimit_certificate_expiry_timestamp_seconds: 1_800_000_000,
      websocket_pod_slots: 6,
      ratelimit_sync_apps_count: 3,
      ratelimit_sync_apps_sum: 4,
    };
    for (const [name, value] of Object.entries(said)) expect(page.value(name), name).toBe(value);
    expect(page.value("ratelimit_shard_up", { shard: "1" })).toBe(1);
    expect(page.value("ratelimit_shard_tokens_available", { shard: "0" })).toBe(400);
    expect(page.value("ratelimit_shard_rate_share", { shard: "1" })).toBe(0.5);
    expect(page.value("ratelimit_config_info", { version: "abc" })).toBe(1);
    expect(page.value("ratelimit_build_info", { version: "1.2.3" })).toBe(1);
    expect(page.value("ratelimit_config_reloads_total", { result: "refused" })).toBe(2);
    expect(page.value("ratelimit_redis_commands_total", { command: "grant", outcome: "timeout" })).toBe(1);
    expect(page.value("ratelimit_redis_commands_total", { command: "emergency-check", outcome: "ok" })).toBe(1);
    expect(page.value("ratelimit_store_errors_total", { kind: "timeout" })).toBe(1);
    expect(page.value("ratelimit_store_errors_total", { kind: "denied" })).toBe(0);
    expect(page.value("ratelimit_sync_latency_seconds_count", { outcome: "ok" })).toBe(2);
    expect(page.value("ratelimit_refusals_total", { app_id: "none", layer: "identity" })).toBe(1);
  });

  it("tells the first stage of an automatic emergency from the emergency itself", async () => {
    const stage = { ...NO_EMERGENCY, burstsStopped: true };
    const stats = { rounds: 0, reconciledApps: 0, corrections: 0, recoveredTokens: 0 };
    const service = serviceMetrics({ coordinator: { emergency: () => stage, stats: () => stats } });
    endings.push(service.close);
    const page = readPage(await text(service.page([])));
    expect(page.value("ratelimit_bursts_stopped", { cluster_id: "cluster-01" })).toBe(1);
    expect(page.value("ratelimit_emergency_mode", { cluster_id: "cluster-01" })).toBe(0);
  });

  it("has the connections of all workers and of the service", async () => {
    const service = serviceMetrics();
    endings.push(service.close);
    const workers = ["gw-1", "gw-2"].map((node) => {
      const worker = startWorker(node);
      connect(worker);
      return worker.metrics(quietLimiter(), connections([{ proxy: node, active: 5 }]));
    });
    connect(service);
    service.counted("nginx-7", 1, { node: { connections: 2 }, batch: 0, apps: [] });
    const page = readPage(await text(service.page(workers)));
    expect(page.value("websocket_connections_active_total")).toBe(12);
    expect(page.value("websocket_proxy_instance", { proxy_id: "gw-2" })).toBe(5);
    expect(page.value("websocket_proxy_instance", { proxy_id: "nginx-7" })).toBe(2);
    expect(page.value("websocket_pod_connections", { upstream: "sockets", pod: "10.0.0.1:80" })).toBe(10);
    expect(page.value("websocket_pod_limit", { upstream: "sockets", pod: "10.0.0.1:80" })).toBe(8);
    expect(page.value("websocket_connections_rejected_total")).toBe(6);
    expect(page.value("websocket_refusals_total", { reason: "LIMIT_EXCEEDED" })).toBe(3);
    expect(page.value("websocket_refusals_total", { reason: "other" })).toBe(3);
    expect(page.value("websocket_leases_lost_total")).toBe(9);
    expect(page.value("websocket_leases_reclaimed_total")).toBe(3);
    expect(page.value("websocket_acquire_seconds_count")).toBe(12);
    expect(page.value("websocket_dry_run_refusals_total", { reason: "LIMIT_EXCEEDED" })).toBe(3);
  });

  it("has at most a thousand proxies", async () => {
    const service = serviceMetrics();
    endings.push(service.close);
    const proxies = Array.from({ length: 1500 }, (_, i) => ({ proxy: `envoy-${i}`, active: 1 }));
    const page = readPage(
      await text(service.page([startWorker("gw-1").metrics(quietLimiter(), connections(proxies))])),
    );
    expect(page.samples.filter(({ name }) => name === "websocket_proxy_instance")).toHaveLength(1001);
    expect(page.value("websocket_proxy_instance", { proxy_id: "other" })).toBe(500);
    expect(page.value("websocket_connections_active_total")).toBe(1500);
  });
});

describe("labels", () => {
  it("include every refusal code of requests and connections", () => {
    const requestCodes = Object.values(codes).filter((code) => code !== "ok" && /^[a-z_]+$/.test(code));
    expect(reasons).toEqual(requestCodes);
    const layers = Object.fromEntries(reasons.map((reason) => [reason, layerOf(reason)]));
    expect(layers).toMatchObject({
      ...{ quota_exhausted: "L2", cluster_exhausted: "L1", cost_exceeds_capacity: "L2", invalid_argument: "L3" },
      ...{ emergency_blocked: "emergency", store_unavailable: "store" },
      ...{ invalid_identity: "identity", unknown_app: "identity" },
    });
    expect(connectionReasons).toEqual(expect.arrayContaining(["LIMIT_EXCEEDED", "RATE_LIMITED", "store_unavailable"]));
    expect(connectionReasons).not.toContain("SUCCESS");
  });

  it("have names for known methods, and one for all others", async () => {
    const service = serviceMetrics();
    endings.push(service.close);
    const worker = startWorker("gw-1", ["video"]);
    for (const method of ["GET", "PATCH", "get", "PROPFIND", "", "GET "]) {
      worker.decided(decision({ method }), 0.000_001);
      worker.decided(refusal({ method, allowed: true, dryRun: true }), 0.000_001);
    }
    const page = readPage(await text(service.page([worker.metrics(quietLimiter())])));
    const counts = (status: string) =>
      ["GET", "PATCH", "OTHER"].map((method) => page.value("ratelimit_requests_total", { method, status }));
    expect([counts("allowed"), counts("dry_run_rejected")]).toEqual([
      [1, 1, 4],
      [1, 1, 4],
    ]);
  });

  it("are escaped", async () => {
    const service = serviceMetrics({ version: '1"2\\3\n4' });
    endings.push(service.close);
    expect(await text(service.page([]))).toContain('ratelimit_build_info{version="1\\"2\\\\3\\n4"} 1\n');
  });
});

describe("docs/METRICS.md", () => {
  it("lists exactly the metrics of the catalog with type, labels and help text", () => {
    const page = readFileSync(new URL("../../../../docs/METRICS.md", import.meta.url), "utf8");
    const rows = [...page.matchAll(/^\| `((?:ratelimit|websocket)_\w+)` \| (\w+) \|(.*?)\| (.*) \|$/gm)];
    expect(rows.map(([, name, type, labels, help]) => [name, type, labels!.match(/\w+/g) ?? [], help])).toEqual(
      Object.entries(metrics).map(([name, { type, labels, help }]) => [name, type, labels, help]),
    );
  });
});
