/** Rates between two readings of counters. */
import { expect, it } from "vitest";
import { createActivity } from "../../../../src/service/dashboard/activity.js";
import { createMeter } from "../../../../src/service/dashboard/meter.js";
import { createPlaneTotals, noDecisions } from "../../../../src/service/metrics/plane-totals.js";
import { latencyBoundsSeconds } from "../../../../src/service/metrics/process-counters.js";
import { nodeReport } from "../../../support/node-reports.js";

const idle = { storeLatency: [], storeErrors: 0, connectionRefusals: {} };
const histogram = (bound: number, count: number) => {
  const values = [0, ...latencyBoundsSeconds.map(() => 0), 0];
  values[latencyBoundsSeconds.indexOf(bound) + 1] = count;
  return values;
};

it("adds workers and data planes, with quantiles of this interval only", () => {
  const measure = createMeter();
  const slow = histogram(1, 1_000);
  const before = nodeReport({ local: 100, remote: 0, cached: 0, refused: 0, refusals: {}, latency: slow });
  expect(measure({ atMs: 0, workers: [before], planes: noDecisions(), primary: idle })).toBeUndefined();
  const latency = slow.map((value, i) => value + (histogram(0.00001, 50)[i] ?? 0));
  const after = nodeReport({
    ...before,
    local: 140,
    remote: 10,
    refused: 6,
    refusals: { quota_exhausted: 6 },
    dryRunRefused: 8,
    dryRunRefusals: { quota_exhausted: 8 },
    latency,
  });
  const planes = { ...noDecisions(), requests: 50, refused: 4, l3Hits: 50, refusals: { cluster_exhausted: 4 } };
  const rates = measure({ atMs: 2_000, workers: [after], planes, primary: { ...idle, storeErrors: 2 } });
  expect(rates).toMatchObject({ requests: 50, refused: 5, admitted: 45, dry_run: 3, local: 0.9, store_errors: 1 });
  expect(rates?.layers).toEqual({ L2: 3, L1: 2 });
  expect(rates?.decision.p99_ms).toBeLessThanOrEqual(0.01);
  expect(rates?.store).toEqual({ p50_ms: null, p99_ms: null });
});

it("shows refusals by limits as a layer of their own", () => {
  const measure = createMeter();
  const read = (atMs: number, refusals: Record<string, number>) =>
    measure({ atMs, workers: [nodeReport({ refusals })], planes: noDecisions(), primary: idle });
  read(0, {});
  expect(read(1_000, { quota_exhausted: 2, "quota_exhausted per-user": 5, "denied blocked": 1 })?.layers).toEqual({
    L2: 2,
    limit: 6,
  });
});

it("never has negative rates when a worker restarts, and no peak when one reports again", () => {
  const measure = createMeter();
  const read = (atMs: number, ...workers: ReturnType<typeof nodeReport>[]) =>
    measure({ atMs, workers, planes: noDecisions(), primary: idle });
  const one = (local: number) => nodeReport({ node: "gw-1", local, remote: 0, cached: 0 });
  const two = (local: number) => nodeReport({ node: "gw-2", local, remote: 0, cached: 0 });
  read(0, one(1_000), two(5_000));
  expect(read(1_000, one(7), two(5_000))?.requests).toBe(7);
  // The second worker did not reply in time.
  expect(read(2_000, one(7))?.requests).toBe(0);
  expect(read(3_000, one(7), two(5_100))?.requests).toBe(0);
});

it("ranks apps by their rate, from workers that send only changed apps", () => {
  const planes = createPlaneTotals();
  const activity = createActivity(planes);
  const report = (life: string, ...apps: [string, number, number, number][]) => ({
    node: "n",
    life,
    apps,
    recentRefusals: [],
  });
  activity.update([report("a", ["old", 900, 0, 0], ["new", 10, 0, 0])], 0);
  expect(activity.busiest(5).map(({ app_id }) => app_id)).toEqual(["old", "new"]);
  planes.add({ app: "nginx", numbers: { GET: [40, 10, 0] } }, true);
  activity.update([report("a", ["new", 30, 5, 4])], 2_000);
  expect(activity.busiest(5)).toEqual([
    { app_id: "nginx", requests: 25, refused: 5, dry_run: 0, total: 50, total_refused: 10, total_dry_run: 0 },
    { app_id: "new", requests: 10, refused: 2.5, dry_run: 2, total: 30, total_refused: 5, total_dry_run: 4 },
    { app_id: "old", requests: 0, refused: 0, dry_run: 0, total: 900, total_refused: 0, total_dry_run: 0 },
  ]);
  // A replaced worker counts from 0 again.
  activity.update([report("b", ["new", 4, 0, 0])], 3_000);
  expect(activity.busiest(5).find(({ app_id }) => app_id === "new")).toMatchObject({ requests: 0, total: 4 });
});
