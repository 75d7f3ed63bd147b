/** What happened between two looks at a service, and which apps were the busiest. */
import { describe, expect, it } from "vitest";
import { busiest, type Look, paceOf } from "../../../src/cli/status/look.js";
import * as samples from "./sample-replies.js";

function look(seconds: number, statistics: Partial<Look["status"]["statistics"]>, apps = samples.apps.apps): Look {
  const status = {
    ...samples.status,
    uptime_seconds: 100 + seconds,
    timestamp: new Date(Date.parse(samples.status.timestamp) + seconds * 1000).toISOString(),
    statistics: { ...samples.status.statistics, ...statistics },
  };
  return { status, apps, appsTotal: apps.length };
}

describe("the pace between two looks", () => {
  const before = look(0, { total_requests: 1_000, allowed_requests: 900, rejected_requests: 100, syncs: 10 });

  it("is per second of the service's own clock", () => {
    const after = look(4, { total_requests: 3_000, allowed_requests: 2_500, rejected_requests: 500, syncs: 50 });
    expect(paceOf(before, after)).toMatchObject({
      isRecent: true,
      requests: 500,
      allowed: 400,
      refused: 100,
      syncs: 10,
      failedSyncs: 0,
    });
  });

  it("has the hit ratio and the latency of what was decided in between, not since the beginning", () => {
    const first = look(0, { total_requests: 1_000, l3_hit_ratio: 0.5, avg_latency_ms: 10 });
    const second = look(2, { total_requests: 2_000, l3_hit_ratio: 0.75, avg_latency_ms: 6 });
    const { hitRatio, latencyMs } = paceOf(first, second);
    expect(hitRatio).toBeCloseTo(1, 10);
    expect(latencyMs).toBeCloseTo(2, 10);
  });

  it("has neither where nothing was decided", () => {
    const idle = paceOf(before, look(2, { total_requests: 1_000 }));
    expect([idle.requests, idle.hitRatio, idle.latencyMs]).toEqual([0, undefined, undefined]);
  });

  it("is a mean since the beginning where there is only one look, or the service began anew, or it is another one", () => {
    const now = look(0, { total_requests: 1_000 });
    expect(paceOf(undefined, now)).toMatchObject({ isRecent: false, requests: 10 });
    const restarted = { ...look(9, { total_requests: 50 }) };
    restarted.status = { ...restarted.status, uptime_seconds: 5 };
    expect(paceOf(before, restarted)).toMatchObject({ isRecent: false, requests: 10 });
    const other = { ...look(2, {}), status: { ...look(2, {}).status, node_id: "gw-02" } };
    expect(paceOf(before, other).isRecent).toBe(false);
  });

  it("never goes below zero when a worker was replaced and took its counts along", () => {
    expect(paceOf(before, look(2, { total_requests: 400, rejected_requests: 0 }))).toMatchObject({
      requests: 0,
      refused: 0,
    });
  });
});

describe("the busiest apps", () => {
  it("are those with the most requests between the looks, whatever came before", () => {
    const apps = (a: number, b: number, c: number) => [
      samples.appNamed("old", { requests: a }),
      samples.appNamed("busy", { requests: b, rejected: b / 2 }),
      samples.appNamed("new", { requests: c }),
    ];
    const now = look(2, {}, apps(1_000_000, 100, 10));
    const pace = paceOf(look(0, {}, apps(1_000_000, 20, 0)), now);
    expect(busiest(now, pace).map(({ app_id }) => app_id)).toEqual(["busy", "new", "old"]);
    expect(pace.apps.get("busy")).toEqual({ requests: 40, refused: 20 });
  });
});
