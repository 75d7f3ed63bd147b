/** What happened between two looks at a service, and which apps were the busiest. */
import { describe, expect, it } from "vitest";
import { busiest, ratesOf, type Snapshot } from "../../../src/cli/status/snapshot.js";
import * as samples from "./sample-replies.js";

function snapshot(
  seconds: number,
  statistics: Partial<Snapshot["status"]["statistics"]>,
  apps = samples.apps.apps,
): Snapshot {
  const status = {
    ...samples.status,
    uptime_seconds: 100 + seconds,
    timestamp: new Date(Date.parse(samples.status.timestamp) + seconds * 1000).toISOString(),
    statistics: { ...samples.status.statistics, ...statistics },
  };
  return { status, apps, appsTotal: apps.length };
}

describe("the rates between two snapshots", () => {
  const before = snapshot(0, { total_requests: 1_000, allowed_requests: 900, rejected_requests: 100, syncs: 10 });

  it("are per second of the clock of the service", () => {
    const after = snapshot(4, { total_requests: 3_000, allowed_requests: 2_500, rejected_requests: 500, syncs: 50 });
    expect(ratesOf(before, after)).toMatchObject({
      isRecent: true,
      requests: 500,
      allowed: 400,
      refused: 100,
      syncs: 10,
    });
  });

  it("have the hit ratio and latency of the decisions in between, not since the start", () => {
    const first = snapshot(0, { total_requests: 1_000, l3_hit_ratio: 0.5, avg_latency_ms: 10 });
    const second = snapshot(2, { total_requests: 2_000, l3_hit_ratio: 0.75, avg_latency_ms: 6 });
    const { hitRatio, latencyMs } = ratesOf(first, second);
    expect(hitRatio).toBeCloseTo(1, 10);
    expect(latencyMs).toBeCloseTo(2, 10);
  });

  it("have neither if nothing was decided", () => {
    const idle = ratesOf(before, snapshot(2, { total_requests: 1_000 }));
    expect([idle.requests, idle.hitRatio, idle.latencyMs]).toEqual([0, undefined, undefined]);
  });

  it("are means since the start with only one snapshot, after a restart, or from another service", () => {
    const now = snapshot(0, { total_requests: 1_000 });
    expect(ratesOf(undefined, now)).toMatchObject({ isRecent: false, requests: 10 });
    const restarted = { ...snapshot(9, { total_requests: 50 }) };
    restarted.status = { ...restarted.status, uptime_seconds: 5 };
    expect(ratesOf(before, restarted)).toMatchObject({ isRecent: false, requests: 10 });
    const other = { ...snapshot(2, {}), status: { ...snapshot(2, {}).status, node_id: "gw-02" } };
    expect(ratesOf(before, other).isRecent).toBe(false);
  });

  it("are never negative when a worker was replaced", () => {
    expect(ratesOf(before, snapshot(2, { total_requests: 400, rejected_requests: 0 }))).toMatchObject({
      requests: 0,
      refused: 0,
    });
  });
});

describe("the busiest apps", () => {
  it("are those with most requests between the snapshots", () => {
    const apps = (a: number, b: number, c: number) => [
      samples.appNamed("old", { requests: a }),
      samples.appNamed("busy", { requests: b, rejected: b / 2 }),
      samples.appNamed("new", { requests: c }),
    ];
    const now = snapshot(2, {}, apps(1_000_000, 100, 10));
    const rates = ratesOf(snapshot(0, {}, apps(1_000_000, 20, 0)), now);
    expect(busiest(now, rates).map(({ app_id }) => app_id)).toEqual(["busy", "new", "old"]);
    expect(rates.apps.get("busy")).toEqual({ requests: 40, refused: 20, dryRunRefused: 0 });
  });
});
