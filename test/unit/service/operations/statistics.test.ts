/** The combined reports of workers. */
import { describe, expect, it } from "vitest";
import { createPlaneTotals } from "../../../../src/service/metrics/plane-totals.js";
import { latencyBoundsSeconds } from "../../../../src/service/metrics/process-counters.js";
import { appTotals, quantileSeconds, statistics } from "../../../../src/service/operations/statistics.js";
import { appReport, nodeReport, refusalReport } from "../../../support/node-reports.js";

const counts = (...entries: [bound: number, count: number][]) => {
  const all = latencyBoundsSeconds.concat(Number.POSITIVE_INFINITY).map(() => 0);
  for (const [bound, count] of entries) {
    const at = latencyBoundsSeconds.indexOf(bound);
    all[at < 0 ? latencyBoundsSeconds.length : at] = count;
  }
  return all;
};

describe("the 99th percentile", () => {
  it("is 0 without measurements", () => {
    expect(quantileSeconds(counts(), 0.99)).toBe(0);
  });

  it("is interpolated within the bucket of the 99th percentile", () => {
    const seconds = quantileSeconds(counts([0.00001, 985], [0.001, 10], [0.1, 5]), 0.99);
    expect(seconds).toBeCloseTo(0.00075, 9);
  });

  it("is a bound if all values are below it, and the last bound for values above all", () => {
    expect(quantileSeconds(counts([0.000001, 100]), 1)).toBe(0.000001);
    expect(quantileSeconds(counts([7, 100]), 0.99)).toBe(1);
  });

  it("is computed over all workers, not from their percentiles", () => {
    const fast = nodeReport({ latency: [0.05, ...counts([0.000005, 9_900])] });
    const slow = nodeReport({ latency: [4.95, ...counts([0.05, 100])] });
    const { p99_latency_ms, avg_latency_ms } = statistics([fast, slow]);
    expect(p99_latency_ms).toBeCloseTo(0.005, 6);
    expect(avg_latency_ms).toBeCloseTo(0.5, 6);
  });
});

describe("statistics", () => {
  it("without workers are zeros, not NaN", () => {
    expect(Object.values(statistics([]))).toEqual(Object.values(statistics([])).map(() => 0));
  });
});

describe("the totals of an app", () => {
  it("are the sum over workers and data planes, with the newest refusals first and no more than twenty", () => {
    const refusals = (node: string, from: number) =>
      Array.from({ length: 15 }, (_, i) => refusalReport({ node, at: from - i * 10 }));
    const planes = createPlaneTotals();
    planes.add({ app: "nginx-only", numbers: { GET: [5, 2, 1], quota_exhausted: [2], l3: [6, 2] } }, true);
    planes.add({ app: "video", numbers: { PUT: [0, 3, 0], quota_exhausted: [3] } }, true);
    planes.add({ app: "not-configured", numbers: { GET: [9] } }, false);
    const answers = [
      [appReport({ refusals: { quota_exhausted: 2 }, lastRefusals: refusals("a", 1_000) })],
      [appReport({ refusals: { quota_exhausted: 1, store_unavailable: 4 }, lastRefusals: refusals("b", 1_005) })],
      [appReport({ app: "other", requests: 1 })],
    ];
    const totals = appTotals(["video", "other", "nginx-only", "idle"], answers, planes.ofApp);
    const video = totals.get("video");
    expect(video).toMatchObject({
      requests: 63,
      refused: 7,
      l3Hits: 54,
      refusals: { quota_exhausted: 6, store_unavailable: 4 },
    });
    expect(video?.lastRefusals).toHaveLength(20);
    expect(video?.lastRefusals.slice(0, 3).map(({ at }) => at)).toEqual([1_005, 1_000, 995]);
    expect(totals.get("other")?.requests).toBe(1);
    expect(totals.get("idle")?.requests).toBe(0);
    expect(totals.get("nginx-only")).toMatchObject({
      requests: 8,
      allowed: 6,
      refused: 2,
      dryRunRefused: 1,
      l3Hits: 6,
    });
    expect(statistics([nodeReport()], planes.all())).toMatchObject({ total_requests: 120, rejected_requests: 15 });
  });
});
