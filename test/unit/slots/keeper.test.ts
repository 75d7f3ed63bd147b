/** A slot keeper in normal operation: slots are taken, renewed and released with few calls. */
import { describe, expect, it } from "vitest";
import type { ConnectionVerdict } from "../../../src/slots/connection-admission.js";
import { createKeeperBench, LEASE_MS, limits, ROUTE } from "./keeper-bench.js";

const bodyOf = (verdict: ConnectionVerdict) => JSON.parse(verdict.allowed ? "{}" : verdict.body);

describe("a slot keeper", () => {
  it("admits as many connections as the pod takes, over all processes", async () => {
    const bench = createKeeperBench();
    const [a, b] = [bench.start("a"), bench.start("b")];
    const asked = Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? a : b).connect());
    const verdicts = await bench.during(Promise.all(asked));
    expect(verdicts.filter((verdict) => verdict.allowed).length).toBe(2);
    expect(await bench.count("pod-1")).toBe(2);
  });

  it("chooses the least loaded pod, and pods in turn if they are equally loaded", async () => {
    const bench = createKeeperBench();
    const a = bench.start("a");
    const pods = ["pod-1", "pod-2", "pod-3"];
    for (let i = 0; i < 3; i++) await a.connectNow(pods);
    expect([...a.open.values()].map(({ pod }) => pod).sort()).toEqual(pods);
    for (const connection of [...a.open.keys()]) a.end(connection);
    const firsts = new Set<string>();
    for (let i = 0; i < 3; i++) {
      const verdict = await a.connectNow(pods);
      if (!verdict.allowed) continue;
      firsts.add(verdict.pod);
      a.end(verdict.slot.connection);
      await bench.clock.advance(20);
    }
    expect(firsts.size).toBe(3);
  });

  it("refuses with 429, the reason, the limit and Retry-After", async () => {
    const bench = createKeeperBench(limits({ maxTotal: 3, maxPerApp: 2 }));
    const a = bench.start("a");
    await a.connectNow();
    await a.connectNow();
    const full = await a.connectNow(["pod-1"], "other");
    expect(full).toMatchObject({ allowed: false, status: 429, headers: { "Retry-After": "5" } });
    expect(bodyOf(full)).toEqual({
      ...{ error: "connection_limit_exceeded", reason: "LIMIT_EXCEEDED", app_id: "other" },
      ...{ retry_after: 5, remaining: 0, limit: 2 },
    });
    expect(bodyOf(await a.connectNow(["pod-2"]))).toMatchObject({ reason: "APP_LIMIT_EXCEEDED", limit: 2 });
    await a.connectNow(["pod-2"], "other");
    expect(bodyOf(await a.connectNow(["pod-2"], "third"))).toMatchObject({ reason: "TOTAL_LIMIT_EXCEEDED", limit: 3 });
    expect(a.seen.refused).toEqual({ LIMIT_EXCEEDED: 1, APP_LIMIT_EXCEEDED: 1, TOTAL_LIMIT_EXCEEDED: 1 });
  });

  it("spreads Retry-After; for the rate it is never too early", async () => {
    const waits: Record<string, Set<number>> = { LIMIT_EXCEEDED: new Set(), RATE_LIMITED: new Set() };
    for (const random of [0, 0.25, 0.5, 0.75, 0.999]) {
      const bench = createKeeperBench(limits({ maxPerPod: 1, ratePerSecond: 0.25 }));
      const a = bench.start("a", { random: () => random });
      await a.connectNow();
      for (const pod of ["pod-1", "pod-2"]) {
        const body = bodyOf(await a.connectNow([pod]));
        waits[body.reason]?.add(body.retry_after);
      }
    }
    expect(waits.LIMIT_EXCEEDED?.size).toBeGreaterThan(2);
    expect(waits.RATE_LIMITED?.size).toBeGreaterThan(2);
    expect(Math.min(...(waits.RATE_LIMITED ?? []))).toBeGreaterThanOrEqual(4);
  });

  it("renews connections until they end, and releases them then", async () => {
    const bench = createKeeperBench();
    const a = bench.start("a");
    await a.connectNow();
    await a.connectNow();
    await bench.clock.advance(10 * LEASE_MS);
    expect(await bench.count("pod-1")).toBe(2);
    const [first = ""] = a.open.keys();
    const slot = a.open.get(first)?.slot;
    a.end(first);
    slot?.release();
    await bench.clock.advance(20);
    expect(await bench.count("pod-1")).toBe(1);
    expect(a.way.calls.release).toBe(1);
    expect(a.keeper.stats()).toMatchObject({ active: 1, releasesWaiting: 0 });
    expect(a.seen.lost).toBe(0);
  });

  it("slots of a killed process expire after a lease and a beat, even if the other process is idle", async () => {
    const bench = createKeeperBench();
    const [a] = [bench.start("a"), bench.start("b")];
    await a.connectNow();
    a.kill();
    await bench.clock.advance(LEASE_MS - 2_000);
    expect(await bench.count("pod-1")).toBe(1);
    await bench.clock.advance(3_000);
    expect(await bench.count("pod-1")).toBe(0);
  });

  it("a thousand connections that end at once are released in a few calls", async () => {
    const bench = createKeeperBench(limits({ maxPerPod: 10_000 }));
    const a = bench.start("a");
    await bench.during(Promise.all(Array.from({ length: 1_000 }, () => a.connect())));
    for (const connection of [...a.open.keys()]) a.end(connection);
    await bench.clock.advance(100);
    expect(await bench.total()).toBe(0);
    expect(a.way.calls.release).toBeLessThanOrEqual(5);
  });

  it("50,000 connections cost about twenty calls a second, evenly spread, and none is renewed late", async () => {
    const bench = createKeeperBench();
    const renewedAt = new Map<string, number>();
    let calls = 0;
    let longestGap = 0;
    const a = bench.start("a", {
      slots: {
        tagOf: (route) => route,
        of: () => ({
          async acquire({ connection, pods }) {
            renewedAt.set(connection, bench.clock.now());
            const pod = pods[0] ?? "";
            return { allowed: true, count: 1, code: "SUCCESS", pod, retryAfterMs: 0, reclaimed: 0, incarnation: "1" };
          },
          async renew(_proxy, _leaseMs, batch) {
            calls++;
            for (const { connection } of batch) {
              longestGap = Math.max(longestGap, bench.clock.now() - (renewedAt.get(connection) ?? 0));
              renewedAt.set(connection, bench.clock.now());
            }
            return { renewed: batch.length, lost: [], incarnation: "1" };
          },
          release: async (_proxy, _leaseMs, batch) => ({ released: batch.length, unknown: [] }),
        }),
      },
    });
    // They arrive within five seconds.
    for (let i = 0; i < 50; i++) {
      await Promise.all(Array.from({ length: 1_000 }, () => a.connect()));
      await bench.clock.advance(100);
    }
    const perSecond: number[] = [];
    for (let second = 0; second < 60; second++) {
      const before = calls;
      await bench.clock.advance(1_000);
      perSecond.push(calls - before);
    }
    expect(renewedAt.size).toBe(50_000);
    expect(Math.max(...perSecond)).toBeLessThanOrEqual(25);
    expect(longestGap).toBeLessThanOrEqual(LEASE_MS / 3);
  });

  it("a few connections cost one call a second, and a gateway without such routes none", async () => {
    const bench = createKeeperBench();
    const [a, idle] = [bench.start("a"), bench.start("b", { routes: new Map() })];
    await a.connectNow();
    const before = a.way.calls.renew;
    await bench.clock.advance(60_000);
    expect(a.way.calls.renew - before).toBeLessThanOrEqual(61);
    expect(idle.way.calls.renew).toBe(0);
  });

  it("changed limits apply to new connections, open ones stay", async () => {
    const bench = createKeeperBench(limits({ maxPerPod: 4 }));
    const a = bench.start("a");
    for (let i = 0; i < 4; i++) await a.connectNow();
    a.keeper.reconfigure({ routes: new Map([[ROUTE, limits({ maxPerPod: 2 })]]), timeoutMs: 1_000 });
    await bench.clock.advance(2 * LEASE_MS);
    expect(await bench.count("pod-1")).toBe(4);
    expect(a.keeper.stats().pods).toEqual([{ route: ROUTE, pod: "pod-1", active: 4, limit: 2 }]);
    const ids = [...a.open.keys()];
    for (const ended of ids.slice(0, 2)) {
      expect((await a.connectNow()).allowed).toBe(false);
      a.end(ended);
      await bench.clock.advance(20);
    }
    expect((await a.connectNow()).allowed).toBe(false);
    a.end(ids[2] ?? "");
    await bench.clock.advance(20);
    expect((await a.connectNow()).allowed).toBe(true);
  });

  it("a lowered limit closes no connection, even if its lease was lost", async () => {
    const bench = createKeeperBench(limits({ maxPerPod: 4 }));
    const [a] = [bench.start("a"), bench.start("b")];
    for (let i = 0; i < 4; i++) await a.connectNow();
    a.keeper.reconfigure({ routes: new Map([[ROUTE, limits({ maxPerPod: 2 })]]), timeoutMs: 1_000 });
    a.pause();
    await bench.clock.advance(2 * LEASE_MS);
    expect(await bench.count("pod-1")).toBe(0);
    await a.resume();
    await bench.clock.advance(2_000);
    expect(a.closed).toEqual([]);
    expect(await bench.count("pod-1")).toBe(4);
  });

  it("each route has its own lease", async () => {
    const bench = createKeeperBench();
    const routes = new Map([
      [ROUTE, limits({ leaseMs: 600_000 })],
      ["/other/", limits({ leaseMs: 6_000 })],
    ]);
    const [a] = [bench.start("a", { routes }), bench.start("b", { routes })];
    await a.connectNow();
    await a.connectNow(["pod-1"], "chat", "/other/");
    a.kill();
    await bench.clock.advance(7_000);
    expect([await bench.count("pod-1"), await bench.count("pod-1", "/other/")]).toEqual([1, 0]);
  });

  it("a changed lease loses no connection", async () => {
    const bench = createKeeperBench(limits({ maxPerPod: 1_000, leaseMs: 3_000 }));
    const [a] = [bench.start("a"), bench.start("b")];
    await bench.during(Promise.all(Array.from({ length: 300 }, () => a.connect())));
    for (const leaseMs of [300_000, 2_000, 30_000]) {
      a.keeper.reconfigure({ routes: new Map([[ROUTE, limits({ maxPerPod: 1_000, leaseMs })]]), timeoutMs: 1_000 });
      await bench.clock.advance(20_000);
      expect([await bench.count("pod-1"), a.seen.lost]).toEqual([300, 0]);
    }
  });

  it("draining admits nothing; closing releases all slots and waits for the acknowledgement", async () => {
    const bench = createKeeperBench();
    const a = bench.start("a");
    await a.connectNow();
    await a.connectNow();
    a.keeper.drain();
    expect(bodyOf(await a.connectNow(["pod-2"]))).toMatchObject({ error: "service_unavailable", reason: "draining" });
    await bench.during(a.keeper.close());
    expect(await bench.total()).toBe(0);
    const calls = { ...a.way.calls };
    await bench.clock.advance(LEASE_MS);
    expect(a.way.calls).toEqual(calls);
  });

  it("a route without limits and a request without pods are refused", async () => {
    const bench = createKeeperBench();
    const a = bench.start("a");
    const gone = await bench.during(a.keeper.admit({ app: "chat", route: "/gone/", pods: ["pod-1"] }));
    expect(gone).toMatchObject({ allowed: false, status: 503 });
    expect(await a.connectNow([])).toMatchObject({ allowed: false, status: 503 });
  });
});
