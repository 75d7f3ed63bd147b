/** Pauses, outages, lost replies and lost store state: open connections keep their slots, and no slot leaks. */
import { describe, expect, it } from "vitest";
import type { ConnectionVerdict } from "../../../src/slots/connection-admission.js";
import type { OnStoreFailure } from "../../../src/slots/route-limits.js";
import { createKeeperBench, LEASE_MS, limits, type Process } from "./keeper-bench.js";

const reasonOf = (verdict: ConnectionVerdict) => JSON.parse(verdict.allowed ? "{}" : verdict.body).reason;
const many = (process: Process, count: number, pods?: string[]) =>
  Promise.all(Array.from({ length: count }, () => process.connect(pods)));

describe("a process that was paused for longer than its leases", () => {
  it("reclaims its slots if they are free, and reports it", async () => {
    const bench = createKeeperBench();
    const [a] = [bench.start("a"), bench.start("b")];
    await a.connectNow();
    await a.connectNow();
    a.pause();
    await bench.clock.advance(2 * LEASE_MS);
    expect(await bench.count("pod-1")).toBe(0);
    await a.resume();
    await bench.clock.advance(50);
    expect(await bench.count("pod-1")).toBe(2);
    expect(a.closed).toEqual([]);
    expect([a.seen, a.closed]).toEqual([{ lost: 2, reclaimed: 2, refused: {} }, []]);
  });

  it("closes connections whose slots others have taken, at once", async () => {
    const bench = createKeeperBench();
    const [a, b] = [bench.start("a"), bench.start("b")];
    await a.connectNow();
    await a.connectNow();
    a.pause();
    await bench.clock.advance(2 * LEASE_MS);
    expect((await b.connectNow()).allowed).toBe(true);
    await a.resume();
    await bench.clock.advance(50);
    expect(a.closed.length).toBe(1);
    expect(a.open.size + b.open.size).toBe(2);
    expect(await bench.count("pod-1")).toBe(2);
    expect([a.closed.length, a.keeper.stats().active]).toEqual([1, 1]);
  });

  it.each([
    ["before its timers have fired", true],
    ["after they have", false],
  ])("recovers before it admits a connection that arrives %s", async (_, atOnce) => {
    const bench = createKeeperBench();
    const [a] = [bench.start("a"), bench.start("b")];
    await a.connectNow();
    await a.connectNow();
    a.pause();
    await bench.clock.advance(2 * LEASE_MS);
    const early = atOnce ? a.connect() : undefined;
    await a.resume();
    const asked = early ?? a.connect();
    expect(reasonOf(await bench.during(asked))).toBe("LIMIT_EXCEEDED");
    expect(a.open.size).toBe(2);
    expect(await bench.count("pod-1")).toBe(2);
  });

  it("ignores a reply from before the pause", async () => {
    const bench = createKeeperBench(limits({ maxPerPod: 1 }));
    const [a, b] = [bench.start("a"), bench.start("b")];
    const asked = a.connect();
    for (let i = 0; i < 12; i++) await Promise.resolve();
    await bench.clock.advance(0.5);
    expect(await bench.count("pod-1")).toBe(1);
    a.pause();
    await bench.clock.advance(2 * LEASE_MS);
    expect((await b.connectNow()).allowed).toBe(true);
    await a.resume();
    expect((await bench.during(asked)).allowed).toBe(false);
    await bench.clock.advance(1_000);
    expect(await bench.count("pod-1")).toBe(1);
  });

  it("a pause shorter than the lease has no effect", async () => {
    const bench = createKeeperBench();
    const [a] = [bench.start("a"), bench.start("b")];
    await a.connectNow();
    a.pause();
    await bench.clock.advance(LEASE_MS / 2);
    await a.resume();
    await bench.clock.advance(2 * LEASE_MS);
    expect([a.seen.lost, a.keeper.stats().active]).toEqual([0, 1]);
    expect(await bench.count("pod-1")).toBe(1);
  });
});

describe.each(["refusing", "hanging", "late", "deaf"] as const)("a store away for a minute (%s)", (mode) => {
  it("drops none of a thousand connections, and all have slots afterwards", async () => {
    const bench = createKeeperBench(limits({ maxPerPod: 1_000 }));
    const [a, b] = [bench.start("a"), bench.start("b")];
    await bench.during(Promise.all([many(a, 600), many(b, 400)]));
    for (const { way } of [a, b]) way.mode = mode;
    await bench.clock.advance(60_000);
    expect(a.keeper.stats().storeAway).toBe(true);
    for (const { way } of [a, b]) way.mode = "up";
    await bench.clock.advance(3_000);
    expect([a.open.size, b.open.size, a.closed.length + b.closed.length]).toEqual([600, 400, 0]);
    expect(await bench.count("pod-1")).toBe(1_000);
    expect((await a.connectNow()).allowed).toBe(false);
    await bench.clock.advance(2 * LEASE_MS);
    expect(await bench.count("pod-1")).toBe(1_000);
  });

  it("is probed by one call at a time, about once a second", async () => {
    const bench = createKeeperBench(limits({ maxPerPod: 1_000 }));
    const a = bench.start("a");
    await bench.during(many(a, 700));
    a.way.mode = mode;
    await bench.clock.advance(5_000);
    const before = a.way.calls.renew;
    await bench.clock.advance(30_000);
    expect(a.way.calls.renew - before).toBeLessThanOrEqual(60);
    expect(a.way.calls.renew - before).toBeGreaterThanOrEqual(10);
  });

  it("closed: 503 store_unavailable within the deadline, never 429", async () => {
    const bench = createKeeperBench();
    const a = bench.start("a");
    a.way.mode = mode;
    const began = bench.clock.now();
    const first = await a.connectNow();
    expect(bench.clock.now() - began).toBeLessThanOrEqual(1_001);
    await bench.clock.advance(3_000);
    const later = bench.clock.now();
    const second = await a.connectNow();
    expect(bench.clock.now() - later).toBeLessThanOrEqual(1);
    for (const verdict of [first, second]) {
      expect(verdict).toMatchObject({ allowed: false, status: 503 });
      expect(reasonOf(verdict)).toBe("store_unavailable");
    }
  });

  it("connections that end meanwhile are released afterwards", async () => {
    const bench = createKeeperBench();
    const a = bench.start("a");
    await a.connectNow();
    await a.connectNow();
    a.way.mode = mode;
    await bench.clock.advance(5_000);
    for (const connection of [...a.open.keys()]) a.end(connection);
    await bench.clock.advance(10_000);
    a.way.mode = "up";
    await bench.clock.advance(2_500);
    expect(a.keeper.stats().releasesWaiting).toBe(0);
    expect(await bench.count("pod-1")).toBe(0);
  });
});

describe("when the reply to an acquire is lost", () => {
  it.each(["deaf", "late"] as const)(
    "(%s) its slot is released by its id, on whichever pod it was taken",
    async (mode) => {
      const bench = createKeeperBench();
      const a = bench.start("a");
      await bench.clock.advance(10);
      a.way.mode = mode;
      const pods = ["pod-1", "pod-2", "pod-3"];
      const verdicts = await bench.during(many(a, 5, pods));
      expect(verdicts.every((verdict) => !verdict.allowed)).toBe(true);
      a.way.mode = "up";
      await bench.clock.advance(3_000);
      expect(await bench.total()).toBe(0);
      expect((await a.connectNow(pods)).allowed).toBe(true);
    },
  );

  it("a caller that is gone when the reply arrives releases the slot", async () => {
    const bench = createKeeperBench();
    const a = bench.start("a");
    const verdict = await a.connectNow();
    if (verdict.allowed) verdict.slot.release();
    await bench.clock.advance(20);
    expect(await bench.count("pod-1")).toBe(0);
  });
});

describe("a process that was disconnected alone, for longer than its leases", () => {
  it("reclaims the slots of open connections before it admits new ones", async () => {
    const bench = createKeeperBench();
    const [a] = [bench.start("a"), bench.start("b")];
    await a.connectNow();
    await a.connectNow();
    a.way.mode = "refusing";
    await bench.clock.advance(2 * LEASE_MS);
    expect(await bench.count("pod-1")).toBe(0);
    a.way.mode = "up";
    const verdicts = [];
    for (let i = 0; i < 100; i++) {
      verdicts.push(await a.connectNow());
      await bench.clock.advance(20);
    }
    expect(verdicts.some((verdict) => verdict.allowed)).toBe(false);
    expect(verdicts.map(reasonOf)).toContain("LIMIT_EXCEEDED");
    expect([a.open.size, a.closed.length, await bench.count("pod-1")]).toEqual([2, 0, 2]);
  });
});

describe("a store that loses all its data", () => {
  it("gets the open connections back before another gateway takes their slots", async () => {
    const bench = createKeeperBench();
    const [a, b] = [bench.start("a"), bench.start("b")];
    await a.connectNow();
    await a.connectNow();
    await bench.clock.advance(5_000);
    bench.wipe();
    const first = await b.connectNow();
    expect(first).toMatchObject({ allowed: false, status: 503 });
    await bench.clock.advance(3_500);
    expect([a.open.size, a.closed.length, await bench.count("pod-1")]).toEqual([2, 0, 2]);
    expect(reasonOf(await b.connectNow())).toBe("LIMIT_EXCEEDED");
  });

  it("also after an outage during which it was replaced", async () => {
    const bench = createKeeperBench();
    const [a, b] = [bench.start("a"), bench.start("b")];
    await a.connectNow();
    await a.connectNow();
    for (const { way } of [a, b]) way.mode = "refusing";
    await bench.clock.advance(60_000);
    bench.wipe();
    for (const { way } of [a, b]) way.mode = "up";
    for (let i = 0; i < 100; i++) {
      expect((await b.connectNow()).allowed).toBe(false);
      await bench.clock.advance(50);
    }
    expect([a.open.size, a.closed.length, await bench.count("pod-1")]).toEqual([2, 0, 2]);
  });
});

describe("admitted without the store", () => {
  const away = async (onStoreFailure: OnStoreFailure, more = {}) => {
    const bench = createKeeperBench(limits({ maxPerPod: 5, onStoreFailure, ...more }));
    const processes = ["a", "b"].map((name) => bench.start(name));
    await bench.clock.advance(10);
    for (const { way } of processes) way.mode = "refusing";
    await bench.clock.advance(2_000);
    return { bench, processes };
  };
  const knock = async (processes: Process[], times: number, pods: string[]) => {
    for (const process of processes) for (let i = 0; i < times; i++) await process.connect(pods);
  };

  it("open: all are admitted, evenly on the pods, whatever the limits are", async () => {
    const { bench, processes } = await away("open", { maxTotal: 3, maxPerApp: 2, ratePerSecond: 1, burst: 2 });
    await knock(processes, 20, ["pod-1", "pod-2"]);
    for (const { open, keeper, seen } of processes) {
      expect([...open.values()].filter(({ pod }) => pod === "pod-1").length).toBe(10);
      expect([open.size, keeper.stats().withoutLease, seen.refused]).toEqual([20, 20, {}]);
    }
    expect(await bench.total()).toBe(0);
  });

  it("open with a maximum: it applies per process, others get 503", async () => {
    const { processes } = await away("open", { maxWithoutStore: 15 });
    await knock(processes, 20, ["pod-1", "pod-2"]);
    for (const { open, seen } of processes) expect([open.size, seen.refused]).toEqual([15, { store_unavailable: 5 }]);
  });

  it("local: each process admits its share, rounded down; together never more than the limit", async () => {
    const { processes } = await away("local");
    await knock(processes, 20, ["pod-1"]);
    expect(processes.map(({ open }) => open.size)).toEqual([2, 2]);
    const few = await away("local", { maxPerPod: 1 });
    await knock(few.processes, 5, ["pod-1"]);
    expect(few.processes.map(({ open }) => open.size)).toEqual([0, 0]);
  });

  it("local: the rate applies to the share of each process as well", async () => {
    const local = await away("local", { ratePerSecond: 1, burst: 1 });
    await knock(local.processes, 5, ["pod-1"]);
    await local.bench.clock.advance(1_100);
    await knock(local.processes, 5, ["pod-1"]);
    expect(local.processes.map((one) => one.open.size)).toEqual([1, 1]);
    await local.bench.clock.advance(1_000);
    await knock(local.processes, 5, ["pod-1"]);
    expect(local.processes.map((one) => one.open.size)).toEqual([2, 2]);
  });

  it("connections get leases when the store is back; those above the limit are closed", async () => {
    const { bench, processes } = await away("open");
    await knock(processes, 5, ["pod-1"]);
    for (const { way } of processes) way.mode = "up";
    await bench.clock.advance(2_000);
    expect(processes.reduce((sum, { open }) => sum + open.size, 0)).toBe(5);
    expect(processes.reduce((sum, { closed }) => sum + closed.length, 0)).toBe(5);
    expect(await bench.count("pod-1")).toBe(5);
    for (const { keeper, seen } of processes) expect([keeper.stats().withoutLease, seen.lost]).toEqual([0, 0]);
    await bench.clock.advance(2 * LEASE_MS);
    expect(await bench.count("pod-1")).toBe(5);
  });
});

describe("a slow store", () => {
  it("that takes half a second per call: five thousand connections keep their leases", async () => {
    const bench = createKeeperBench(limits({ maxPerPod: 100_000 }));
    const a = bench.start("a", { timeoutMs: 2_000 });
    for (let i = 0; i < 5; i++) await bench.during(many(a, 1_000));
    a.way.latencyMs = 500;
    await bench.clock.advance(2 * LEASE_MS);
    expect(a.keeper.stats()).toMatchObject({ active: 5_000, storeAway: false });
    expect(a.seen.lost).toBe(0);
    expect(await bench.total()).toBe(5_000);
  });
});
