/** Counters of data planes are counted once, despite repetitions, failovers and restarts. */
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import { metrics } from "../../../../src/service/metrics/catalog.js";
import { createNodeMetrics } from "../../../../src/service/metrics/node-metrics.js";
import type { PlaneRefusal, PlaneReport } from "../../../../src/service/metrics/reports.js";
import { readPage } from "../../../support/metrics-page.js";
import { decision, quietLimiter, serviceMetrics } from "./metrics-parts.js";

const numbers = { l3: [7, 2], GET: [6, 2, 1, 19, 5, 0, 4], quota_exhausted: [2] };

const batch = (number: number, more: Partial<PlaneReport> = {}): PlaneReport => ({
  ...{ node: { level: 2 }, batch: number, apps: [{ app: "video", numbers }] },
  ...more,
});

function service(now = { ms: 0 }) {
  const made = serviceMetrics({ clock: { now: () => now.ms, after: () => () => undefined } });
  return { counted: made.counted, page: async () => readPage(await text(made.page([]))), close: made.close, made };
}

it("are added to the metrics of the workers", async () => {
  const { counted, made } = service();
  const worker = createNodeMetrics({ node: "gw-1", enabled: true, apps: ["video"], limits: [], appLabels: 10 });
  worker.decided(decision(), 0.000_001);
  counted("nginx-1", 1, batch(1));
  const page = readPage(await text(made.page([worker.metrics(quietLimiter())])));
  const video = { app_id: "video" };
  expect(page.value("ratelimit_requests_total", { ...video, method: "GET", status: "allowed" })).toBe(7);
  expect(page.value("ratelimit_requests_total", { ...video, method: "GET", status: "rejected" })).toBe(2);
  expect(page.value("ratelimit_requests_total", { ...video, method: "GET", status: "dry_run_rejected" })).toBe(1);
  expect(page.value("ratelimit_requests_allowed_total", video)).toBe(8);
  expect(page.value("ratelimit_requests_rejected_total", video)).toBe(2);
  expect(page.value("ratelimit_refusals_total", { ...video, reason: "quota_exhausted" })).toBe(2);
  expect(page.value("ratelimit_l3_hits_total", video)).toBe(8);
  expect(page.value("ratelimit_l3_misses_total", video)).toBe(2);
  expect(page.value("ratelimit_request_cost_sum", video)).toBe(21);
  expect(page.value("ratelimit_request_cost_count", video)).toBe(10);
  expect(page.value("ratelimit_request_cost_bucket", { ...video, le: "1" })).toBe(5);
  expect(page.value("ratelimit_degradation_level", { node_id: "nginx-1" })).toBe(2);
  made.close();
  worker.close();
});

it("include the time of decisions, and connections per configured pod", async () => {
  const { counted, made } = service();
  const worker = createNodeMetrics({ node: "gw-1", enabled: true, apps: ["video"], limits: [], appLabels: 10 });
  const times = { latency_local: [9_000, 1, 2], latency_remote: [70_000_000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1] };
  const pod = { route: "/ws/", upstream: "sockets", pod: "10.0.0.1:80" };
  const pods = [
    { ...pod, active: 3 },
    { ...pod, pod: "10.6.6.6:80", active: 1 },
  ];
  counted("nginx-1", 1, batch(1, { apps: [{ app: "video", numbers: times }], pods }));
  const open = { pods: [{ ...pod, active: 5, limit: 8 }], proxies: [] };
  const read = async () => readPage(await text(made.page([worker.metrics(quietLimiter(), open)])));
  const page = await read();
  const [local, remote] = ["local", "remote"].map((source) => ({ app_id: "video", source }));
  expect(page.value("ratelimit_check_latency_seconds_count", local)).toBe(3);
  expect(page.value("ratelimit_check_latency_seconds_sum", local)).toBeCloseTo(0.000_009, 9);
  expect(page.value("ratelimit_check_latency_seconds_bucket", { ...local, le: "0.000005" })).toBe(3);
  expect(page.value("ratelimit_check_latency_seconds_bucket", { ...remote, le: "0.01" })).toBe(0);
  expect(page.value("ratelimit_check_latency_seconds_bucket", { ...remote, le: "0.05" })).toBe(1);
  const { latency } = made.planes.totals.all();
  expect([latency[1], latency[2], latency[11]]).toEqual([1, 2, 1]);
  expect(page.value("websocket_pod_connections", pod)).toBe(8);
  expect(page.value("websocket_pod_connections", { pod: "10.6.6.6:80" })).toBeUndefined();
  // A message without a list changes nothing; an empty list does.
  counted("nginx-1", 1, batch(2));
  expect((await read()).value("websocket_pod_connections", pod)).toBe(8);
  counted("nginx-1", 1, batch(3, { pods: [] }));
  expect((await read()).value("websocket_pod_connections", pod)).toBe(5);
  made.close();
  worker.close();
});

it("include lost, reclaimed and refused connections", async () => {
  const { counted, page, close } = service();
  const connections = { slots_lost: [2], slots_reclaimed: [3], slots_dry_run_store_unavailable: [4] };
  const refused = { slots_refused_store_unavailable: [5], slots_refused_other: [6] };
  counted("nginx-1", 1, batch(1, { apps: [{ app: "*", numbers: { ...connections, ...refused } }] }));
  const found = await page();
  expect(found.value("websocket_leases_lost_total")).toBe(2);
  expect(found.value("websocket_leases_reclaimed_total")).toBe(3);
  expect(found.value("websocket_dry_run_refusals_total", { reason: "store_unavailable" })).toBe(4);
  expect(found.value("websocket_refusals_total", { reason: "store_unavailable" })).toBe(5);
  expect(found.value("websocket_refusals_total", { reason: "other" })).toBe(6);
  expect(found.value("websocket_connections_rejected_total")).toBe(11);
  close();
});

it("a repeated batch, also in another epoch, is counted once; later ones and those of a restarted node are added", async () => {
  const { counted, page, close } = service();
  const hits = async () => (await page()).sum("ratelimit_l3_hits_total");
  counted("nginx-1", 1, batch(501));
  counted("nginx-1", 1, batch(501));
  expect(await hits()).toBe(7);
  counted("nginx-1", 2, batch(501));
  counted("nginx-1", 2, batch(500));
  expect(await hits()).toBe(7);
  counted("nginx-1", 2, batch(502));
  expect(await hits()).toBe(14);
  counted("nginx-1", 3, batch(400));
  expect(await hits()).toBe(21);
  counted("nginx-1", 3, { node: {}, batch: 0, apps: [] });
  counted("nginx-1", 3, batch(400));
  expect(await hits()).toBe(21);
  close();
});

it("a node that switches to another service is counted once by both together", async () => {
  const [first, second] = [service(), service()];
  first.counted("nginx-1", 1, batch(1));
  second.counted("nginx-1", 1, batch(2));
  first.counted("nginx-1", 1, batch(3));
  const sums = await Promise.all(
    [first, second].map(async ({ page }) => (await page()).sum("ratelimit_l3_hits_total")),
  );
  expect(sums).toEqual([14, 7]);
  first.close();
  second.close();
});

it("a node that stopped reporting is no longer shown, but its counters stay", async () => {
  const now = { ms: 0 };
  const { counted, page, close } = service(now);
  counted("nginx-1", 1, batch(1));
  now.ms = 60_000;
  const later = await page();
  expect(later.value("ratelimit_degradation_level", { node_id: "nginx-1" })).toBeUndefined();
  expect(later.sum("ratelimit_l3_hits_total")).toBe(7);
  close();
});

it("recent refusals are kept once per batch, at a plausible time, a limited number per app", () => {
  const { counted, made } = service();
  const at = 5_000_000;
  const one: PlaneRefusal = {
    ...{ app: "video", at, code: "quota_exhausted", method: "GET", cost: 5, balance: -3, remaining: 0, limit: 12 },
    ...{ retry_after_ms: 900, source: "cached", dry_run: false },
  };
  const kept = (app = "video") => made.planes.totals.ofApp(app)?.lastRefusals ?? [];
  const before = Date.now();
  // The clock of the data plane is wrong, but it states its current time.
  counted("nginx-1", 1, batch(1, { node: { clock: at + 2_000 }, refusals: [one] }));
  counted("nginx-1", 1, batch(1, { node: { clock: at + 9_000 }, refusals: [one] }));
  expect(kept()).toEqual([
    {
      ...{ node: "nginx-1", code: "quota_exhausted", method: "GET", cost: 5, balance: -3, remaining: 0, limit: 12 },
      ...{ retryAfterMs: 900, source: "cached", dryRun: false, at: expect.any(Number) },
    },
  ]);
  const age = (refusal: { at: number } | undefined) => Date.now() - (refusal?.at ?? 0);
  expect(age(kept()[0])).toBeGreaterThanOrEqual(2_000);
  expect(kept()[0]?.at).toBeGreaterThanOrEqual(before - 2_000);
  // Neither in the future nor long ago.
  counted("nginx-1", 1, batch(2, { node: { clock: 0 }, refusals: [one] }));
  counted("nginx-1", 1, batch(3, { node: { clock: at + 1e12 }, refusals: [one] }));
  expect(age(kept()[1])).toBeGreaterThanOrEqual(0);
  expect(age(kept()[2])).toBeLessThan(1e9);
  const unknown = [{ app: "made-up" }, { code: "made_up" }, { code: "ok" }, { method: "BREW" }, { source: "guess" }];
  counted("nginx-1", 1, batch(4, { refusals: unknown.map((change) => ({ ...one, ...change })) }));
  expect(kept()).toHaveLength(3);
  expect(kept("made-up")).toEqual([]);
  for (let i = 5; i < 20; i++) counted("nginx-1", 1, batch(i, { refusals: new Array(200).fill(one) }));
  expect(kept()).toHaveLength(20);
  expect(made.planes.totals.recentRefusals()).toHaveLength(20);
  made.close();
});

it("no labels are created for unknown apps and names, and the number of nodes is bounded", async () => {
  const { counted, page, close } = service();
  const made = Array.from({ length: 50 }, (_, i) => ({
    app: `made-${i}`,
    numbers: { ...numbers, [`what_${i}`]: [1] },
  }));
  counted("nginx-0", 1, batch(1, { apps: [...made, { app: "*", numbers: { OTHER: [0, 3], invalid_identity: [3] } }] }));
  for (let i = 0; i < 3_000; i++) counted(`nginx-${i}`, 1, batch(2));
  const { samples } = await page();
  const apps = new Set(samples.flatMap(({ labels }) => labels.app_id ?? []));
  expect([...apps].sort()).toEqual(["none", "video"]);
  const nodes = new Set(
    samples.filter(({ name }) => name === "ratelimit_degradation_level").map((s) => s.labels.node_id),
  );
  expect(nodes.size).toBeLessThanOrEqual(1_000);
  for (const { name } of samples) {
    const family = name.replace(/_(bucket|sum|count)$/, "");
    expect(Object.hasOwn(metrics, name) || Object.hasOwn(metrics, family) || /^(process|nodejs)_/.test(name)).toBe(
      true,
    );
  }
  close();
});

it("refusals by limits and those of dry runs are told apart, also from data planes that report neither", async () => {
  const made = serviceMetrics({ isLimit: (name) => name === "per-user" });
  const video = {
    ...{ GET: [4, 9, 3], quota_exhausted: [9], limit_quota_exhausted: [7] },
    ...{ dry_run_quota_exhausted: [3], limit_dry_run_quota_exhausted: [1] },
  };
  const perUser = { requests: [5, 8, 1], quota_exhausted: [7], dry_run_quota_exhausted: [1] };
  const apps = [
    { app: "video", numbers: video },
    { app: "limit:per-user", numbers: perUser },
    { app: "limit:made-up", numbers: perUser },
  ];
  made.counted("nginx-1", 1, { node: {}, batch: 1, apps });
  made.counted("nginx-0.2", 1, { node: {}, batch: 1, apps: [{ app: "video", numbers }] });
  const { totals } = made.planes;
  expect(totals.ofApp("video")).toMatchObject({
    ...{ requests: 25, refused: 11, dryRunRefused: 4 },
    refusals: { quota_exhausted: 4, "quota_exhausted *": 7 },
    dryRunRefusals: { quota_exhausted: 2, "quota_exhausted *": 1 },
  });
  expect(totals.all()).toMatchObject({
    refusals: { quota_exhausted: 4, "quota_exhausted per-user": 7 },
    dryRunRefusals: { quota_exhausted: 2, "quota_exhausted per-user": 1 },
  });
  expect([...totals.limits()]).toEqual([["per-user", 5, 8, 1]]);
  const page = readPage(await text(made.page([])));
  const by = (layer: string) => page.value("ratelimit_refusals_total", { app_id: "video", layer });
  expect([by("L2"), by("limit")]).toEqual([4, 7]);
  expect(page.sum("ratelimit_refusals_total")).toBe(page.sum("ratelimit_requests_rejected_total"));
  made.close();
});

it("a data plane that states more refusals by limits than refusals lowers no sum", async () => {
  const made = serviceMetrics({ isLimit: () => true });
  made.counted("nginx-1", 1, batch(1));
  const lie = { quota_exhausted: [1], limit_quota_exhausted: [50], limit_denied: [3] };
  made.counted("nginx-1", 1, batch(2, { apps: [{ app: "video", numbers: lie }] }));
  const page = readPage(await text(made.page([])));
  expect(page.value("ratelimit_refusals_total", { layer: "L2" })).toBe(2);
  expect(made.planes.totals.ofApp("video")?.refusals).toEqual({ quota_exhausted: 2, "quota_exhausted *": 1 });
  made.close();
});
