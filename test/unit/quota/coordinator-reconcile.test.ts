/** Reconciliation: one coordinator per round, dead coordinators are replaced, tokens of dead nodes return once. */
import { describe, expect, it } from "vitest";
import { InvalidArgument } from "../../../src/store/errors.js";
import { createBench, passUntil } from "./cluster-bench.js";

const MINUTE = 60_000;
const app = { id: "video", guaranteed: 0, burst: 200, priority: 1, borrow: true };
const other = { ...app, id: "audio" };
const idle = { granted: 0, spent: 0, returned: 0, want: 0 };
const manual = { automaticEmergency: false };

describe("rounds", () => {
  it("are run by exactly one of three coordinators, about once per interval", async () => {
    const bench = createBench();
    const all = ["a", "b", "c"].map((name) => bench.addCoordinator(name, [app, other], manual));
    const rounds = () => all.flatMap((one) => one.rounds);
    await bench.pass(0.1 * MINUTE);
    expect(rounds()).toHaveLength(1);
    for (let count = 2; count <= 20; count++) {
      await bench.pass(MINUTE);
      // The first of the three is at most a tenth of the interval late.
      expect(rounds().length).toBeLessThanOrEqual(count);
    }
    expect(rounds().length).toBeGreaterThanOrEqual(18);
    for (const round of rounds()) expect(round).toMatchObject({ end: "complete", apps: 2, failedApps: 0 });
    expect(all.every((one) => one.rounds.length > 0)).toBe(true);
  });

  it("continue after a coordinator died during a round", async () => {
    const bench = createBench();
    const dying = bench.addCoordinator(
      "a",
      [app],
      { ...manual, random: () => 0 },
      { fault: "dead", only: "reconcile" },
    );
    const heir = bench.addCoordinator("b", [app], { ...manual, random: () => 0.5 });
    await bench.pass(1000);
    expect(dying.way.calls).toContain("reconcile");
    dying.way.only = undefined;
    await bench.pass(29_000);
    expect(heir.rounds).toEqual([]);
    await bench.pass(8000);
    expect(heir.rounds).toMatchObject([{ end: "complete" }]);
    expect(dying.rounds).toEqual([]);
  });

  it("continue after a coordinator died between rounds", async () => {
    const bench = createBench();
    const dying = bench.addCoordinator("a", [app], { ...manual, random: () => 0 });
    const heir = bench.addCoordinator("b", [app], { ...manual, random: () => 0.5 });
    await bench.pass(10_000);
    expect([dying.rounds.length, heir.rounds.length]).toEqual([1, 0]);
    dying.way.fault = "dead";
    await bench.pass(MINUTE);
    expect([dying.rounds.length, heir.rounds.length]).toEqual([1, 1]);
  });

  it("that take long renew the lock", async () => {
    const bench = createBench();
    const apps = Array.from({ length: 50 }, (_, i) => ({ ...app, id: `app${i}` }));
    const slow = bench.addCoordinator("a", apps, { ...manual, random: () => 0 });
    const heir = bench.addCoordinator("b", apps, { ...manual, random: () => 0.5 });
    slow.way.slowMs = { reconcile: 1000 };
    await bench.pass(48_000);
    expect([slow.rounds, heir.rounds]).toEqual([[], []]);
    await bench.pass(4000);
    expect(slow.rounds).toMatchObject([{ end: "complete", apps: 50 }]);
    expect(slow.way.calls.filter((call) => call === "lock").length).toBeGreaterThanOrEqual(5);
    expect(heir.rounds).toEqual([]);
  });

  it("end when another coordinator has the lock", async () => {
    const bench = createBench();
    const apps = Array.from({ length: 50 }, (_, i) => ({ ...app, id: `app${i}` }));
    const slow = bench.addCoordinator("a", apps, { ...manual, random: () => 0 });
    slow.way.slowMs = { reconcile: 1000 };
    await bench.pass(2000);
    slow.way.slowMs = { reconcile: 40_000 };
    await bench.pass(32_000);
    const heir = bench.addCoordinator("b", apps, { ...manual, random: () => 0 });
    await bench.pass(20_000);
    expect(heir.rounds).toMatchObject([{ end: "complete" }]);
    expect(slow.rounds).toMatchObject([{ end: "lost" }]);
  });

  it("yield to the event loop after some apps", async () => {
    const bench = createBench();
    const apps = Array.from({ length: 100 }, (_, i) => ({ ...app, id: `app${i}` }));
    const { reconciled, rounds } = bench.addCoordinator("a", apps, { ...manual, random: () => 0 });
    await bench.clock.advance(0);
    await new Promise(setImmediate);
    expect(reconciled.length).toBeGreaterThan(0);
    expect(reconciled.length).toBeLessThan(50);
    await bench.pass(1000);
    expect([reconciled.length, rounds.length]).toEqual([100, 1]);
  });
});

describe("tokens of dead nodes", () => {
  it("return once, after the time-to-live and one round", async () => {
    const bench = createBench();
    const all = ["a", "b", "c"].map((name) => bench.addCoordinator(name, [app, other], manual));
    await bench.quota.grant({ node: "n1", epoch: 1, seq: 1 }, [{ app, ...idle, need: 100 }]);
    await bench.quota.report({ node: "n1", epoch: 1, seq: 2 }, [{ app, granted: 100, spent: 30, returned: 0 }], false);
    await bench.pass(3000 + 1.1 * MINUTE);
    expect(await bench.quota.inspect(app)).toMatchObject({ tokens: 170, clusterTokens: 970, returned: 70 });
    await bench.pass(3 * MINUTE);
    expect(await bench.quota.inspect(app)).toMatchObject({ tokens: 170, clusterTokens: 970, returned: 70 });
    const stats = all.map(({ coordinator }) => coordinator.stats());
    expect(stats.reduce((sum, { corrections }) => sum + corrections, 0)).toBe(1);
    expect(stats.reduce((sum, { recoveredTokens }) => sum + recoveredTokens, 0)).toBe(70);
    expect(await bench.quota.nodes()).toEqual([]);
  });

  it("return also for apps that are not configured, whose buckets do not change otherwise", async () => {
    const bench = createBench();
    const { reconciled } = bench.addCoordinator("a", [app], manual);
    await bench.quota.grant({ node: "n1", epoch: 1, seq: 1 }, [{ app: other, ...idle, need: 100 }]);
    await bench.quota.grant({ node: "n1", epoch: 1, seq: 2 }, [{ app, ...idle, need: 10 }]);
    await bench.pass(3000 + 1.1 * MINUTE);
    expect(reconciled).toContain("audio");
    expect(await bench.quota.nodes()).toEqual([]);
    expect(await bench.quota.inspect(other)).toMatchObject({ tokens: 200, returned: 100, clusterTokens: 1000 });
  });

  it("return once even if replies are lost", async () => {
    const bench = createBench();
    const { coordinator, way, rounds } = bench.addCoordinator("a", [app], manual);
    await bench.quota.grant({ node: "n1", epoch: 1, seq: 1 }, [{ app, ...idle, need: 100 }]);
    await bench.pass(50_000);
    Object.assign(way, { fault: "answer lost", only: "reconcile" });
    while (way.calls.filter((call) => call === "reconcile").length < 3) await bench.pass(25);
    way.fault = "none";
    await bench.pass(10_000);
    expect(rounds.at(-1)).toMatchObject({ end: "complete" });
    expect(coordinator.stats()).toMatchObject({ corrections: 1, recoveredTokens: 100 });
    expect(await bench.quota.inspect(app)).toMatchObject({ tokens: 200, returned: 100 });
  });
});

describe("buckets of limits", () => {
  it.each(["limit:per-user:ann", "rate-limit:0123"])("%s of dead and live nodes do not change L1", async (id) => {
    const bench = createBench({ capacity: 1_000, rate: 100 });
    const value = { id, guaranteed: 0, fillSeconds: 10, burst: 100, priority: 1, borrow: false };
    await bench.quota.grant({ node: "dead", epoch: 1, seq: 1 }, [{ app: value, ...idle, need: 20 }]);
    bench.addCoordinator("a", [app], manual);
    for (let seq = 1; seq <= 8; seq++) {
      await bench.quota.grant({ node: "live", epoch: 1, seq }, [{ app: value, ...idle, need: 5 }]);
      await bench.pass(0.2 * MINUTE);
      expect(await bench.quota.cluster()).toMatchObject({ tokens: 1_000, held: 0 });
    }
    expect((await bench.quota.nodes()).map(({ node }) => node)).not.toContain("dead@1");
  });
});

describe("failures", () => {
  it("of the store end a round, which is repeated when the store is available", async () => {
    const bench = createBench();
    const { way, rounds, failures } = bench.addCoordinator("a", [app, other], manual, { fault: "refused" });
    await bench.pass(20_000);
    expect(failures).toContain("lock");
    Object.assign(way, { only: "reconcile" });
    await bench.pass(30_000);
    expect(rounds.length).toBeGreaterThan(0);
    for (const round of rounds) expect(round).toMatchObject({ end: "failed", failedApps: 1 });
    way.fault = "none";
    await bench.pass(70_000);
    expect(rounds.at(-1)).toMatchObject({ end: "complete", failedApps: 0, apps: 2 });
  });

  it("of one app do not affect the others", async () => {
    const bench = createBench();
    const { rounds, failures, reconciled } = bench.addCoordinator(
      "a",
      [{ ...app, id: "bad", burst: -1 }, other],
      manual,
    );
    await bench.pass(6000);
    expect(rounds).toMatchObject([{ end: "complete", apps: 2, failedApps: 1 }]);
    expect([failures, reconciled]).toEqual([["reconcile"], ["audio"]]);
  });
});

describe("on demand", () => {
  it("reconciles one app, a small drift only with force", async () => {
    const bench = createBench();
    const { coordinator, reconciled } = bench.addCoordinator("a", [app], manual);
    await bench.losingQuota.grant({ node: "n1", epoch: 1, seq: 1 }, [{ app, ...idle, need: 10 }]);
    expect(await coordinator.reconcileNow("video", false)).toMatchObject({ correction: 0, driftBefore: 0.05 });
    expect(await coordinator.reconcileNow("video", true)).toMatchObject({ correction: 10, driftAfter: 0 });
    expect(reconciled).toEqual(["video", "video"]);
    expect(coordinator.stats()).toMatchObject({ corrections: 1 });
  });

  it("borrows and repays once even if replies are lost", async () => {
    const bench = createBench();
    const lender = { ...app, guaranteed: 100 };
    const { coordinator, way } = bench.addCoordinator("a", [lender], manual);
    await bench.quota.grant({ node: "n1", epoch: 1, seq: 1 }, [{ app: lender, ...idle, need: 200 }]);
    const spent = { app: lender, granted: 200, spent: 200, returned: 0 };
    await bench.quota.report({ node: "n1", epoch: 1, seq: 2 }, [spent], false);
    Object.assign(way, { fault: "answer lost", only: "borrow" });
    const borrowing = coordinator.borrow("video", 40);
    await bench.pass(25);
    way.fault = "none";
    expect(await passUntil(bench, borrowing)).toMatchObject({ code: "ok", borrowed: 40, debt: 48 });
    expect(way.calls.filter((call) => call === "borrow")).toHaveLength(2);
    expect(await coordinator.repay("video", 10)).toMatchObject({ code: "ok", repaid: 10, debt: 38 });
  });

  it("rejects unknown apps and invalid amounts", async () => {
    const bench = createBench();
    const { coordinator, way } = bench.addCoordinator("a", [app], manual);
    const calls = [
      () => coordinator.borrow("nobody", 1),
      () => coordinator.repay("nobody", 1),
      () => coordinator.reconcileNow("nobody", true),
    ];
    for (const call of calls) {
      await expect(call()).rejects.toThrow("the configuration has no app");
      await expect(call()).rejects.toThrow('"nobody"');
    }
    expect(way.calls).not.toContain("borrow");
    for (const amount of [0, -1, 1.5, Number.NaN, 1e12]) {
      await expect(coordinator.borrow("video", amount)).rejects.toThrow(InvalidArgument);
      await expect(coordinator.repay("video", amount)).rejects.toThrow("amount");
    }
  });
});

describe("closing", () => {
  it("finishes the current app and releases the lock", async () => {
    const bench = createBench();
    const apps = Array.from({ length: 50 }, (_, i) => ({ ...app, id: `app${i}` }));
    const { coordinator, rounds, way } = bench.addCoordinator("a", apps, { ...manual, random: () => 0 });
    way.slowMs = { reconcile: 1000 };
    await bench.pass(3500);
    await passUntil(bench, coordinator.close());
    expect(rounds).toMatchObject([{ end: "closed", apps: 4 }]);
    const heir = bench.addCoordinator("b", [app], { ...manual, random: () => 0 });
    await bench.pass(100);
    expect(heir.rounds).toMatchObject([{ end: "complete" }]);
  });

  it("does not wait for an unavailable store", async () => {
    const bench = createBench();
    const { coordinator, way, failures } = bench.addCoordinator("a", [app], { ...manual, random: () => 0 });
    await bench.pass(1000);
    way.fault = "refused";
    await passUntil(bench, coordinator.close());
    expect(failures).toContain("lock");
  });
});
