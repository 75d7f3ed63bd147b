/** Metrics of a process: every decision is counted once, in bounded memory. */
import { text } from "node:stream/consumers";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import type { Decision } from "../../../../src/limiter/limiter.js";
import type { LimitDecision } from "../../../../src/limiter/limiter-contract.js";
import { reasons } from "../../../../src/service/metrics/labels.js";
import { createNodeMetrics, type NodeMetricsOptions } from "../../../../src/service/metrics/node-metrics.js";
import { latencyBoundsSeconds } from "../../../../src/service/metrics/process-counters.js";
import { readPage } from "../../../support/metrics-page.js";
import { decision, quietLimiter, refusal, serviceMetrics } from "./metrics-parts.js";

const endings: (() => void)[] = [];
afterEach(() => {
  for (const end of endings.splice(0)) end();
});

function telemetry(options: Partial<NodeMetricsOptions> = {}) {
  const made = createNodeMetrics({
    ...{
      node: "gw-1",
      enabled: true,
      apps: ["video", "audio"],
      limits: ["per-user"],
      appLabels: 1000,
      wallClock: () => 1_700_000_000_000,
    },
    ...options,
  });
  endings.push(made.close);
  return made;
}

/** The page of a service with this one worker. */
async function pageOf(worker: ReturnType<typeof telemetry>, ids = ["video", "audio"], limiter = quietLimiter()) {
  const service = serviceMetrics({ ids });
  endings.push(service.close);
  return readPage(await text(service.page([sent(worker.metrics(limiter))])));
}

/** As it comes out of a message between processes. */
const sent = <T>(message: T): T => JSON.parse(JSON.stringify(message));

describe("a decision", () => {
  it("is counted by app, method and status, with its cost and its latency", async () => {
    const worker = telemetry();
    worker.decided(decision({ cost: 3 }), 0.000_002);
    worker.decided(decision({ cost: 7, method: "PUT" }), 0.000_007);
    worker.decided(decision({ cost: 4, source: "remote" }), 0.002);
    worker.decided(refusal({ cost: 5 }), 0.000_003);
    const page = await pageOf(worker);
    const video = { app_id: "video" };
    expect(page.value("ratelimit_requests_total", { ...video, method: "GET", status: "allowed" })).toBe(2);
    expect(page.value("ratelimit_requests_total", { ...video, method: "PUT", status: "allowed" })).toBe(1);
    expect(page.value("ratelimit_requests_total", { ...video, method: "GET", status: "rejected" })).toBe(1);
    expect(page.value("ratelimit_requests_allowed_total", video)).toBe(3);
    expect(page.value("ratelimit_requests_rejected_total", video)).toBe(1);
    const cost = (le: string) => page.value("ratelimit_request_cost_bucket", { ...video, method: "GET", le });
    expect([cost("2"), cost("5"), cost("+Inf")]).toEqual([0, 3, 3]);
    expect(page.value("ratelimit_request_cost_sum", { ...video, method: "GET" })).toBe(12);
    const latency = (source: string, le: string) =>
      page.value("ratelimit_check_latency_seconds_bucket", { ...video, source, le });
    expect([latency("local", "0.000005"), latency("local", "0.00001"), latency("local", "+Inf")]).toEqual([2, 3, 3]);
    expect([latency("remote", "0.001"), latency("remote", "0.005")]).toEqual([0, 1]);
    expect(page.value("ratelimit_l3_hits_total", video)).toBe(3);
    expect(page.value("ratelimit_l3_misses_total", video)).toBe(1);
    expect(page.value("ratelimit_refusals_total", { ...video, layer: "L2", reason: "quota_exhausted" })).toBe(1);
  });

  it("that waited for the store counts as remote even if it was made without it", async () => {
    const worker = telemetry();
    worker.decided(decision({ source: "without_store" }), 0.05, true);
    worker.decided(decision({ source: "without_store" }), 0.000_001, false);
    const page = await pageOf(worker);
    expect(page.value("ratelimit_check_latency_seconds_count", { source: "remote" })).toBe(1);
    expect(page.value("ratelimit_check_latency_seconds_count", { source: "local" })).toBe(1);
    expect(page.value("ratelimit_l3_misses_total", { app_id: "video" })).toBe(2);
  });

  it("on a dry run is admitted and counted separately", async () => {
    const worker = telemetry();
    worker.decided(refusal({ allowed: true, dryRun: true }), 0.000_001);
    const page = await pageOf(worker);
    expect(page.value("ratelimit_requests_total", { status: "dry_run_rejected" })).toBe(1);
    expect(page.value("ratelimit_requests_allowed_total")).toBe(1);
    expect(page.value("ratelimit_requests_rejected_total")).toBe(0);
    expect(page.sum("ratelimit_refusals_total")).toBe(0);
    const [app] = worker.appReports(["video"], quietLimiter());
    expect(app).toMatchObject({
      requests: 1,
      allowed: 1,
      refused: 0,
      dryRunRefused: 1,
      refusals: {},
      dryRunRefusals: { quota_exhausted: 1 },
    });
    expect(app?.lastRefusals).toMatchObject([{ code: "quota_exhausted", dryRun: true }]);
    expect(worker.activity().apps).toEqual([["video", 1, 0, 1]]);
    const report = worker.report(quietLimiter(), { configVersion: "v", connections: 0, slots: 0 });
    expect([report.refusals, report.dryRunRefusals]).toEqual([{}, { quota_exhausted: 1 }]);
  });

  const perUser = (of: Partial<LimitDecision> = {}): LimitDecision => ({
    ...{ name: "per-user", cost: 1, code: "ok", allowed: true, dryRun: false, remaining: 3, limit: 5, rate: 1 },
    ...{ unit: "requests", bucket: undefined, ...of },
  });

  it("by a limit is counted under the limit's name, not as the app's", async () => {
    const worker = telemetry();
    const refused = perUser({ code: "quota_exhausted", allowed: false });
    worker.decided(decision({ limits: [perUser()] }), 0.000_001);
    worker.decided(refusal({ limitName: "per-user", limits: [refused] }), 0.000_001);
    worker.decided(refusal(), 0.000_001);
    const [app] = worker.appReports(["video"], quietLimiter());
    expect(app?.refusals).toEqual({ quota_exhausted: 1, "quota_exhausted per-user": 1 });
    expect(worker.limits()).toEqual([["per-user", 1, 1, 0]]);
    const page = await pageOf(worker);
    const by = (layer: string) => page.value("ratelimit_refusals_total", { app_id: "video", layer });
    expect([by("L2"), by("limit")]).toEqual([1, 1]);
  });

  it("of a limit's dry run is admitted, also if the app has none; one of an app's dry run does not lift other limits", () => {
    const worker = telemetry();
    const dry = perUser({ code: "quota_exhausted", dryRun: true });
    worker.decided(refusal({ allowed: true, limitName: "per-user", limits: [dry] }), 0.000_001);
    const real = perUser({ code: "quota_exhausted", allowed: false });
    worker.decided(refusal({ dryRun: true, limitName: "per-user", limits: [real] }), 0.000_001);
    const [app] = worker.appReports(["video"], quietLimiter());
    expect(app?.lastRefusals.map(({ dryRun }) => dryRun)).toEqual([false, true]);
    expect(app).toMatchObject({
      ...{ refusals: { "quota_exhausted per-user": 1 }, dryRunRefusals: { "quota_exhausted per-user": 1 } },
      ...{ requests: 2, allowed: 1, refused: 1, dryRunRefused: 1 },
    });
    expect(worker.limits()).toEqual([["per-user", 0, 1, 1]]);
  });

  it("is reported with its app; of many apps those with the most new requests, and the others later", () => {
    const worker = telemetry({ apps: ["a", "b", "c"] });
    for (const app of ["a", "b", "b", "c", "c", "c"]) worker.decided(decision({ app }), 0.000_001);
    expect(worker.activity(2).apps.map(([app]) => app)).toEqual(["c", "b"]);
    worker.decided(decision({ app: "b" }), 0.000_001);
    expect(worker.activity().apps).toEqual([
      ["a", 1, 0, 0],
      ["b", 3, 0, 0],
    ]);
    expect(worker.activity().apps).toEqual([]);
  });

  it("at a limit that is no longer configured is not reported", () => {
    const worker = telemetry({ limits: ["per-user", "global"] });
    worker.decided(decision({ limits: [perUser(), perUser({ name: "global" })] }), 0.000_001);
    worker.reconfigure({ enabled: true, apps: ["video"], appLabels: 10, limits: ["global"] });
    expect(worker.limits()).toEqual([["global", 1, 0, 0]]);
  });

  const anyDecision = fc.record({
    app: fc.constantFrom("video", "audio", "", "not-configured-any-more"),
    method: fc.constantFrom("GET", "PUT", "PROPFIND", "get", "x".repeat(1000)),
    code: fc.constantFrom("ok", ...reasons),
    dryRun: fc.boolean(),
    cost: fc.integer({ min: 0, max: 1_000_000 }),
    source: fc.constantFrom("local", "remote", "cached", "without_store"),
    seconds: fc.double({ min: 0, max: 5, noNaN: true }),
  });

  it("is counted exactly once in each metric", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyDecision, { maxLength: 60 }), async (all) => {
        const worker = telemetry();
        for (const { seconds, ...of } of all) {
          const allowed = of.code === "ok" || of.dryRun;
          worker.decided(decision({ ...of, allowed } as Partial<Decision>), seconds);
        }
        const page = await pageOf(worker);
        const refused = all.filter(({ code, dryRun }) => code !== "ok" && !dryRun).length;
        expect(page.sum("ratelimit_requests_total")).toBe(all.length);
        expect(page.sum("ratelimit_request_cost_count")).toBe(all.length);
        expect(page.sum("ratelimit_check_latency_seconds_count")).toBe(all.length);
        expect(page.sum("ratelimit_check_latency_seconds_bucket", { le: "+Inf" })).toBe(all.length);
        expect(page.sum("ratelimit_requests_allowed_total")).toBe(all.length - refused);
        expect(page.sum("ratelimit_requests_rejected_total")).toBe(refused);
        expect(page.sum("ratelimit_refusals_total")).toBe(refused);
        const identified = all.filter(({ app }) => app !== "").length;
        expect(page.sum("ratelimit_l3_hits_total") + page.sum("ratelimit_l3_misses_total")).toBe(identified);
        const labels = new Set(page.samples.flatMap(({ labels: { app_id } }) => app_id ?? []));
        expect([...labels].every((label) => ["video", "audio", "none", "other"].includes(label))).toBe(true);
        const methods = new Set(page.samples.flatMap(({ labels: { method } }) => method ?? []));
        expect([...methods].every((method) => ["GET", "PUT", "OTHER"].includes(method))).toBe(true);
        const report = worker.report(quietLimiter(), { configVersion: "v", connections: 0, slots: 0 });
        expect(report.latency.slice(1).reduce((sum, count) => sum + count, 0)).toBe(all.length);
        worker.close();
      }),
      { numRuns: 50 },
    );
  });
});

describe("an exchange that has ended", () => {
  it("is counted in the cost deviation, also if the estimate was exact", async () => {
    const worker = telemetry();
    const made = decision({ cost: 4 });
    for (let i = 0; i < 5; i++) worker.settled(made);
    worker.deviated(made, 5, 0.25);
    worker.deviated(made, 12, 2);
    const page = await pageOf(worker);
    const below = (le: string) => page.value("ratelimit_cost_deviation_ratio_bucket", { app_id: "video", le });
    expect([below("0"), below("0.1"), below("0.25"), below("1"), below("2"), below("+Inf")]).toEqual([
      3, 3, 4, 4, 5, 5,
    ]);
    expect(page.value("ratelimit_cost_deviation_ratio_sum")).toBe(2.25);
  });
});

describe("labels of apps", () => {
  it("are limited in number; the other apps share one", async () => {
    const apps = Array.from({ length: 50 }, (_, i) => `app-${i}`);
    const worker = telemetry({ apps, appLabels: 10 });
    for (const app of apps) worker.decided(decision({ app }), 0.000_001);
    const service = serviceMetrics({ ids: apps, labels: 10 });
    endings.push(service.close);
    const page = readPage(
      await text(service.page([sent(worker.metrics(quietLimiter({ "app-3": 5, "app-30": 7, "app-31": 8 })))])),
    );
    const labels = new Set(page.samples.flatMap(({ labels: { app_id } }) => app_id ?? []));
    expect([...labels].sort()).toEqual([...apps.slice(0, 10), "other"].sort());
    expect(page.value("ratelimit_requests_allowed_total", { app_id: "other" })).toBe(40);
    expect(page.value("ratelimit_l3_tokens_local", { app_id: "other", node_id: "gw-1" })).toBe(15);
    // An operator who asks for one app gets it all the same.
    expect(worker.appReports(["app-30"], quietLimiter({ "app-30": 7 }))).toMatchObject([{ requests: 1, balance: 7 }]);
  });

  it("do not clash with apps named like shared labels or object properties", async () => {
    const apps = ["other", "none", "__proto__", "constructor"];
    const worker = telemetry({ apps, appLabels: 3 });
    for (const app of [...apps, ""]) worker.decided(decision({ app }), 0.000_001);
    const page = await pageOf(worker, apps, quietLimiter({ other: 1, constructor: 3 }));
    const seen = page.samples.filter(({ name }) => name === "ratelimit_requests_allowed_total");
    expect(Object.fromEntries(seen.map(({ labels, value }) => [`app ${labels.app_id}`, value]))).toEqual({
      "app other": 2,
      "app none": 2,
      "app __proto__": 1,
    });
  });

  it("follow a reload: remaining apps continue, removed ones end, new ones begin", async () => {
    const worker = telemetry();
    for (const app of ["video", "audio"]) worker.decided(decision({ app }), 0.000_001);
    worker.reconfigure({ enabled: true, apps: ["audio", "text"], limits: [], appLabels: 1000 });
    for (const app of ["video", "audio", "text"]) worker.decided(decision({ app }), 0.000_001);
    const page = await pageOf(worker, ["audio", "text"]);
    expect(page.value("ratelimit_requests_allowed_total", { app_id: "video" })).toBeUndefined();
    expect(page.value("ratelimit_requests_allowed_total", { app_id: "audio" })).toBe(2);
    expect(page.value("ratelimit_requests_allowed_total", { app_id: "text" })).toBe(1);
    // Decided before the reload, and ended after it.
    expect(page.value("ratelimit_requests_allowed_total", { app_id: "other" })).toBe(1);
    expect(JSON.stringify(worker.metrics(quietLimiter()).counters)).not.toContain("video");
    expect(worker.appReports(["video", "audio"], quietLimiter()).map(({ app }) => app)).toEqual(["audio"]);
  });
});

describe("an app that gets another label", () => {
  it("is counted there from then on", async () => {
    const worker = telemetry({ appLabels: 1 });
    worker.decided(decision({ app: "audio" }), 0.000_001);
    worker.reconfigure({ enabled: true, apps: ["audio", "video"], limits: [], appLabels: 1 });
    for (const app of ["audio", "audio", "video"]) worker.decided(decision({ app }), 0.000_001);
    const page = await pageOf(worker);
    expect(page.value("ratelimit_requests_allowed_total", { app_id: "audio" })).toBe(2);
    expect(page.value("ratelimit_requests_allowed_total", { app_id: "other" })).toBe(2);
  });
});

describe("without metrics", () => {
  it("the counters of the admin API are kept, and no others", () => {
    const worker = telemetry({ enabled: false });
    worker.decided(decision(), 0.000_003);
    worker.decided(refusal(), 0.02, true);
    worker.settled(decision());
    worker.deviated(decision(), 9, 3);
    worker.synced("ok", 1, 1);
    worker.storeObserver.called("grant", "ok", 0.001);
    const { counters, gauges } = worker.metrics(quietLimiter({ video: 3 }));
    expect([counters, gauges]).toEqual([{}, {}]);
    const report = worker.report(quietLimiter({}, 2), { configVersion: "v", connections: 4, slots: 2 });
    expect(report).toMatchObject({
      ...{
        node: "gw-1",
        configVersion: "v",
        connections: 4,
        slots: 2,
        level: 2,
        liveNodes: 3,
        syncs: 7,
        failedSyncs: 1,
      },
    });
    const [sum, ...counts] = report.latency;
    expect(sum).toBeCloseTo(0.020_003);
    expect(counts).toHaveLength(latencyBoundsSeconds.length + 1);
    expect(counts[latencyBoundsSeconds.indexOf(0.000_005)]).toBe(1);
    expect(counts[latencyBoundsSeconds.indexOf(0.025)]).toBe(1);
    expect(report.heapUsedBytes).toBeGreaterThan(0);
    expect(report.heapLimitBytes).toBeGreaterThan(report.heapUsedBytes);
    expect(worker.appReports(["video"], quietLimiter())).toMatchObject([{ requests: 2, l3Hits: 2 }]);
  });

  it("they can be enabled and disabled at run time", () => {
    const worker = telemetry({ enabled: false });
    const settings = { apps: ["video"], limits: [], appLabels: 10 };
    worker.reconfigure({ ...settings, enabled: true });
    worker.decided(decision(), 0.000_001);
    expect(worker.metrics(quietLimiter()).counters.ratelimit_l3_hits_total).toEqual({ keys: ["video"], values: [1] });
    worker.reconfigure({ ...settings, enabled: false });
    worker.decided(decision(), 0.000_001);
    expect(worker.metrics(quietLimiter()).counters).toEqual({});
    expect(worker.appReports(["video"], quietLimiter())).toMatchObject([{ requests: 2 }]);
  });
});

describe("the last refusals of an app", () => {
  it("are kept with all details, newest first, at most twenty", () => {
    let now = 1_700_000_000_000;
    const worker = telemetry({ wallClock: () => now });
    for (let i = 1; i <= 27; i++) {
      now += 10;
      const numbers = { cost: i, balance: -i, remaining: 2 * i, limit: 3 * i, retryAfterMs: 4 * i };
      worker.decided(refusal({ ...numbers, method: i > 20 ? "M".repeat(100) : "GET" }), 0.000_001);
    }
    const [app] = worker.appReports(["video", "audio"], quietLimiter({ video: 4 }));
    expect(app).toMatchObject({
      node: "gw-1",
      app: "video",
      balance: 4,
      refused: 27,
      refusals: { quota_exhausted: 27 },
    });
    expect(app?.lastRefusals.map(({ cost }) => cost)).toEqual(Array.from({ length: 20 }, (_, i) => 27 - i));
    expect(app?.lastRefusals[0]).toEqual({
      ...{ at: now, node: "gw-1", code: "quota_exhausted", method: "M".repeat(32), cost: 27, balance: -27 },
      ...{ remaining: 54, limit: 81, retryAfterMs: 108, source: "cached", dryRun: false },
    });
    expect(app?.lastRefusals.at(-1)).toMatchObject({ at: now - 190, method: "GET", cost: 8, balance: -8 });
  });

  it("of a limit have the numbers of the limit", () => {
    const worker = telemetry();
    const numbers = { cost: 5, balance: 2, remaining: 3, limit: 7 };
    const view = {
      name: "per-user",
      unit: "tokens",
      dryRun: false,
      rate: 1,
      allowed: false,
      code: "quota_exhausted",
      ...numbers,
    };
    const other = { ...view, name: "per-ip", allowed: true, code: "ok", cost: 1 };
    worker.decided(refusal({ cost: 99, limitName: "per-user", limits: [other, view] }), 0.000_001);
    const [app] = worker.appReports(["video"], quietLimiter());
    expect(app?.lastRefusals).toMatchObject([{ limitName: "per-user", ...numbers }]);
  });

  it("do not change in an earlier report", () => {
    const worker = telemetry();
    worker.decided(refusal({ cost: 1 }), 0.000_001);
    const [before] = worker.appReports(["video"], quietLimiter());
    for (let i = 0; i < 20; i++) worker.decided(refusal({ cost: 99 }), 0.000_001);
    expect(before?.lastRefusals).toMatchObject([{ cost: 1 }]);
  });
});
