/** Sums over workers never decrease, even if workers crash. */
import { text } from "node:stream/consumers";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createNodeMetrics } from "../../../../src/service/metrics/node-metrics.js";
import type { MetricsReport } from "../../../../src/service/metrics/reports.js";
import { createSeries } from "../../../../src/service/metrics/series.js";
import { createWorkerTotals, type WorkerTotals } from "../../../../src/service/metrics/worker-totals.js";
import { readPage } from "../../../support/metrics-page.js";
import { decision, quietLimiter, serviceMetrics } from "./metrics-parts.js";

function report(node: string, life: string, seq: number, count: number): MetricsReport {
  return { node, life, seq, counters: { ratelimit_l3_hits_total: { keys: ["video"], values: [count] } }, gauges: {} };
}

function hits(totals: WorkerTotals, labels = ["video"]): number | undefined {
  const page = createSeries();
  for (const list of totals.lists(new Set(labels))) page.merge(list);
  return page.list().ratelimit_l3_hits_total?.values[0];
}

describe("the counters of workers", () => {
  it("are added up", () => {
    const totals = createWorkerTotals();
    totals.add([report("gw-1", "a", 1, 10), report("gw-2", "b", 1, 5)]);
    expect(hits(totals)).toBe(15);
  });

  it("stay in the sum when a worker does not reply, or is replaced by one that starts at zero", () => {
    const totals = createWorkerTotals();
    totals.add([report("gw-1", "a", 1, 10), report("gw-2", "b", 1, 5)]);
    totals.add([report("gw-2", "b", 2, 6)]);
    expect(hits(totals)).toBe(16);
    totals.add([report("gw-1", "a2", 1, 0), report("gw-2", "b", 3, 6)]);
    expect(hits(totals)).toBe(16);
    totals.add([report("gw-1", "a2", 2, 3), report("gw-2", "b", 4, 6)]);
    totals.add([report("gw-1", "a3", 1, 1)]);
    expect(hits(totals)).toBe(20);
  });

  it("are not reduced by an older report that arrives late", () => {
    const totals = createWorkerTotals();
    totals.add([report("gw-1", "a", 2, 10)]);
    totals.add([report("gw-1", "a", 1, 4)]);
    expect(hits(totals)).toBe(10);
  });

  it("are dropped with their app", () => {
    const totals = createWorkerTotals();
    totals.add([report("gw-1", "a", 1, 10)]);
    totals.add([report("gw-1", "a2", 1, 2)]);
    hits(totals, []);
    expect(hits(totals)).toBe(2);
  });

  it("never decrease, through any history of scrapes and crashes", () => {
    const step = fc.record({
      node: fc.integer({ min: 0, max: 2 }),
      grow: fc.nat(9),
      dies: fc.boolean(),
      mute: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 50 }), (steps) => {
        const totals = createWorkerTotals();
        const nodes = [0, 1, 2].map(() => ({ life: 0, seq: 0, count: 0 }));
        let before = 0;
        for (const { node, grow, dies, mute } of steps) {
          const one = nodes[node]!;
          if (dies) Object.assign(one, { life: one.life + 1, seq: 0, count: 0 });
          one.count += grow;
          const answers = nodes.flatMap((each, i) => {
            if (mute && i === node) return [];
            return [report(`gw-${i}`, `life-${each.life}`, ++each.seq, each.count)];
          });
          totals.add(answers);
          const sum = hits(totals) ?? 0;
          expect(sum).toBeGreaterThanOrEqual(before);
          before = sum;
        }
      }),
    );
  });
});

describe("the page", () => {
  it("keeps the counters of a crashed worker, but not its gauges", async () => {
    const service = serviceMetrics();
    const start = () => createNodeMetrics({ node: "gw-1", enabled: true, apps: ["video"], limits: [], appLabels: 10 });
    const first = start();
    for (let i = 0; i < 7; i++) first.decided(decision(), 0.000_001);
    await text(service.page([first.metrics(quietLimiter({ video: 50 }))]));
    const without = readPage(await text(service.page([])));
    expect(without.value("ratelimit_requests_allowed_total", { app_id: "video" })).toBe(7);
    expect(without.value("ratelimit_l3_tokens_local")).toBeUndefined();
    expect(without.value("ratelimit_degradation_level")).toBeUndefined();
    const second = start();
    await text(service.page([second.metrics(quietLimiter())]));
    second.decided(decision(), 0.000_001);
    const page = readPage(await text(service.page([second.metrics(quietLimiter({ video: 9 }))])));
    expect(page.value("ratelimit_requests_allowed_total", { app_id: "video" })).toBe(8);
    expect(page.value("ratelimit_check_latency_seconds_count")).toBe(8);
    expect(page.value("ratelimit_l3_tokens_local", { app_id: "video", node_id: "gw-1" })).toBe(9);
    for (const each of [first, second, service]) each.close();
  });

  it("drops the counters of an app that was removed from the configuration", async () => {
    let ids = ["video", "audio"];
    const service = serviceMetrics({ metrics: () => ({ enabled: true, apps: ids, limits: [], appLabels: 10 }) });
    const worker = createNodeMetrics({ node: "gw-1", enabled: true, apps: ids, limits: [], appLabels: 10 });
    for (const app of ids) worker.decided(decision({ app }), 0.000_001);
    ids = ["audio"];
    const page = readPage(await text(service.page([worker.metrics(quietLimiter())])));
    expect(page.value("ratelimit_requests_allowed_total", { app_id: "audio" })).toBe(1);
    expect(page.sum("ratelimit_requests_total", { app_id: "video" })).toBe(0);
    for (const each of [worker, service]) each.close();
  });
});
