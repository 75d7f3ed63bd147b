/** Guarantees of borrowing and emergencies, identical on every store. */
import { expect } from "vitest";
import { createQuota } from "../support/split-quota.js";
import { type Bench, forEachBackend } from "./backends.js";

const SECOND = 1_000_000;
const app = { id: "video", guaranteed: 100, burst: 200, priority: 1, borrow: true };

const quotaOf = (bench: Bench, cluster: { capacity?: number; rate?: number } = {}) =>
  createQuota(bench.store, { id: bench.name, capacity: 1000, rate: 1000, nodeTtlMs: 3000, ...cluster });
type Quota = ReturnType<typeof quotaOf>;

const node = (seq: number) => ({ node: "n1", epoch: 1, seq });
const idle = { granted: 0, spent: 0, returned: 0, want: 0 };

const spentAll = (tokens: number) => ({ app, granted: tokens, spent: tokens, returned: 0 });

/** Spends the whole bucket. */
async function exhaust(quota: Quota): Promise<void> {
  await quota.grant(node(1), [{ app, ...idle, need: 200 }]);
  await quota.report(node(2), [spentAll(200)], false);
}

forEachBackend("borrowing", (it) => {
  it("an empty app borrows up to half of its guaranteed quota and owes 120 % of what it borrowed", async (bench) => {
    const quota = quotaOf(bench);
    await exhaust(quota);
    const lent = await quota.grant(node(3), [{ ...spentAll(200), need: 50, want: 90 }]);
    expect(lent.apps[0]).toMatchObject({ code: "ok", granted: 250, remaining: 0 });
    expect(await quota.inspect(app)).toMatchObject({ tokens: 0, debt: 60, clusterTokens: 750 });
    const more = await quota.grant(node(4), [{ ...spentAll(250), need: 1, want: 1 }]);
    expect(more.apps[0]).toMatchObject({ code: "quota_exhausted", retryAfterMs: 10 });
  });

  it("an app without borrowing does not borrow", async (bench) => {
    const quota = quotaOf(bench);
    await exhaust(quota);
    const strict = { ...app, borrow: false };
    const refused = await quota.grant(node(3), [{ ...spentAll(200), app: strict, need: 1, want: 1 }]);
    expect(refused.apps[0]).toMatchObject({ code: "quota_exhausted" });
    expect((await quota.borrow(strict, 10, "op")).code).toBe("borrowing_disabled");
  });

  it("a busy cluster lends nothing", async (bench) => {
    const quota = quotaOf(bench, { capacity: 260, rate: 0 });
    await exhaust(quota);
    const refused = await quota.grant(node(3), [{ ...spentAll(200), need: 30, want: 30 }]);
    expect(refused.apps[0]).toMatchObject({ code: "quota_exhausted" });
    expect(await quota.inspect(app)).toMatchObject({ debt: 0, clusterTokens: 60 });
  });

  it("refill restores the guaranteed reserve, then repays debt, then fills the burst, exactly", async (bench) => {
    const quota = quotaOf(bench);
    await exhaust(quota);
    await quota.grant(node(3), [{ ...spentAll(200), need: 50, want: 50 }]);
    await quota.report(node(4), [spentAll(250)], false);
    const at = async (seconds: number) => {
      bench.store.clock.now += seconds * SECOND;
      const { tokens, debt } = await quota.inspect(app);
      return { tokens, debt };
    };
    expect(await at(0.5)).toEqual({ tokens: 50, debt: 60 });
    expect(await at(0.5)).toEqual({ tokens: 100, debt: 60 });
    expect(await at(0.25)).toEqual({ tokens: 100, debt: 35 });
    expect(await at(0.35)).toEqual({ tokens: 100, debt: 0 });
    expect(await at(0.5)).toEqual({ tokens: 150, debt: 0 });
    expect(await at(10)).toEqual({ tokens: 200, debt: 0 });
  });

  it("an operator borrows and repays; a repeated operation changes nothing", async (bench) => {
    const quota = quotaOf(bench);
    await exhaust(quota);
    const borrowed = await quota.borrow(app, 40, "op-1");
    expect(borrowed).toEqual({ code: "ok", borrowed: 40, debt: 48, remaining: 40, borrowable: 10 });
    expect(await quota.borrow(app, 40, "op-1")).toEqual(borrowed);
    expect(await quota.borrow(app, 11, "op-2")).toMatchObject({ code: "borrow_limit_exceeded", borrowed: 0, debt: 48 });
    const repaid = await quota.repay(app, 30, "op-3");
    expect(repaid).toEqual({ code: "ok", repaid: 30, debt: 18, remaining: 10 });
    expect(await quota.repay(app, 30, "op-3")).toEqual(repaid);
    expect(await quota.repay(app, 1000, "op-4")).toEqual({ code: "ok", repaid: 10, debt: 8, remaining: 0 });
  });

  it("a full bucket, or a cluster without idle tokens, borrows nothing", async (bench) => {
    const quota = quotaOf(bench);
    expect((await quota.borrow(app, 10, "op-1")).code).toBe("bucket_full");
    const busy = createQuota(bench.store, { id: `${bench.name}-busy`, capacity: 210, rate: 0, nodeTtlMs: 3000 });
    await exhaust(busy);
    expect((await busy.borrow(app, 10, "op-1")).code).toBe("cluster_exhausted");
  });

  it("an invalid amount is rejected with its name", async (bench) => {
    const quota = quotaOf(bench);
    for (const amount of [0, -1, Number.NaN, 1.5, 1e12]) {
      await expect(quota.borrow(app, amount, "op")).rejects.toThrow("amount");
      await expect(quota.repay(app, amount, "op")).rejects.toThrow("amount");
    }
  });
});

forEachBackend("emergency", (it) => {
  it("priorities keep 100, 50, 10 and 0 percent of bucket and refill", async (bench) => {
    const quota = quotaOf(bench, { capacity: 100_000, rate: 100_000 });
    await quota.emergencyOn(0, "test", "operator", "op-1");
    const admitted = [];
    for (const [priority, need] of [200, 100, 20, 1].entries()) {
      const own = { id: `p${priority}`, guaranteed: 100, burst: 200, priority, borrow: true };
      const sender = (seq: number) => ({ node: `n${priority}`, epoch: 1, seq });
      const above = await quota.grant(sender(1), [{ app: own, ...idle, need: need + 1 }]);
      const all = await quota.grant(sender(2), [{ app: own, ...idle, need }]);
      const granted = all.apps[0]?.granted ?? 0;
      await quota.report(sender(3), [{ app: own, granted, spent: granted, returned: 0 }], false);
      bench.store.clock.now += SECOND;
      const { tokens } = await quota.inspect(own);
      admitted.push([above.apps[0]?.code, all.apps[0]?.code, granted, all.apps[0]?.limit, tokens]);
    }
    expect(admitted).toEqual([
      ["cost_exceeds_capacity", "ok", 200, 200, 100],
      ["emergency_blocked", "ok", 100, 100, 50],
      ["emergency_blocked", "ok", 20, 20, 10],
      ["emergency_blocked", "emergency_blocked", 0, 0, 0],
    ]);
  });

  it("is reported to every node, and expires", async (bench) => {
    const quota = quotaOf(bench);
    const on = await quota.emergencyOn(5000, "cluster at 96 %", "sre", "op-1");
    expect(on).toMatchObject({ changed: true });
    expect(on.untilMs - on.sinceMs).toBe(5000);
    expect(await quota.heartbeat({ node: "n1", epoch: 1 })).toMatchObject({ emergency: true, emergencyLeftMs: 5000 });
    bench.store.clock.now += 5 * SECOND;
    expect(await quota.heartbeat({ node: "n1", epoch: 1 })).toMatchObject({ emergency: false, emergencyLeftMs: 0 });
    const ended = { active: false, changed: true, source: "none", reason: "", operator: "" };
    expect(await quota.emergencyCheck(1000, false)).toMatchObject(ended);
  });

  it("a repeated operation has no further effect; off ends the emergency", async (bench) => {
    const quota = quotaOf(bench);
    const on = await quota.emergencyOn(0, "why", "who", "op-1");
    bench.store.clock.now += SECOND;
    expect(await quota.emergencyOn(0, "why", "who", "op-1")).toEqual(on);
    expect(await quota.emergencyOn(9000, "longer", "who", "op-2")).toMatchObject({
      changed: false,
      sinceMs: on.sinceMs,
    });
    const known = { source: "operator", reason: "longer", operator: "who" };
    expect(await quota.emergencyCheck(1000, true)).toMatchObject({ active: true, ...known });
    expect(await quota.emergencyOff("op-3")).toEqual({ changed: true });
    const none = { source: "none", reason: "", operator: "" };
    expect(await quota.emergencyCheck(1000, true)).toMatchObject({ active: false, ...none });
    await quota.emergencyOn(0, "again", "who", "op-4");
    expect(await quota.emergencyOff("op-3")).toEqual({ changed: true });
    expect(await quota.heartbeat({ node: "n1", epoch: 1 })).toMatchObject({ emergency: true });
  });

  it("first stops bursts at 95 % usage, and ends that below 80 % after the cool-down", async (bench) => {
    const quota = quotaOf(bench, { capacity: 200, rate: 10 });
    expect(await quota.emergencyCheck(2000, true)).toMatchObject({ active: false, usage: 0 });
    await quota.grant(node(1), [{ app, ...idle, need: 189 }]);
    expect(await quota.emergencyCheck(2000, true)).toMatchObject({ active: false, usage: 0 });
    await quota.report(node(2), [spentAll(189)], false);
    expect(await quota.emergencyCheck(2000, true)).toMatchObject({ active: false, usage: 0.945 });
    await quota.grant(node(3), [{ ...spentAll(189), need: 1, want: 1 }]);
    await quota.report(node(4), [spentAll(190)], false);
    expect(await quota.emergencyCheck(2000, true)).toMatchObject({
      active: false,
      burstsStopped: true,
      changed: true,
      usage: 0.95,
    });
    bench.store.clock.now += 3 * SECOND;
    expect(await quota.emergencyCheck(2000, true)).toMatchObject({ burstsStopped: true, changed: false, usage: 0.8 });
    bench.store.clock.now += SECOND;
    expect(await quota.emergencyCheck(2000, true)).toMatchObject({ burstsStopped: true, usage: 0.75 });
    bench.store.clock.now += 1.9 * SECOND;
    expect(await quota.emergencyCheck(2000, true)).toMatchObject({ burstsStopped: true });
    bench.store.clock.now += 0.1 * SECOND;
    expect(await quota.emergencyCheck(2000, true)).toMatchObject({
      burstsStopped: false,
      changed: true,
      source: "none",
    });
  });

  it("ends the first stage when the automatic emergency is turned off", async (bench) => {
    const quota = quotaOf(bench, { capacity: 200, rate: 10 });
    await quota.grant(node(1), [{ app, ...idle, need: 195 }]);
    await quota.report(node(2), [spentAll(195)], false);
    expect(await quota.emergencyCheck(2000, true)).toMatchObject({ burstsStopped: true });
    const off = { active: false, burstsStopped: false, changed: true, source: "none" };
    expect(await quota.emergencyCheck(2000, false)).toMatchObject(off);
    expect(await quota.emergencyCheck(2000, false)).toMatchObject({ ...off, changed: false });
  });

  it("no app borrows in an emergency, and an invalid duration is rejected with its name", async (bench) => {
    const quota = quotaOf(bench);
    await exhaust(quota);
    await quota.emergencyOn(0, "why", "who", "op-1");
    expect((await quota.borrow(app, 10, "op-2")).code).toBe("emergency_blocked");
    await expect(quota.emergencyOn(-1, "why", "who", "op-3")).rejects.toThrow("duration_ms");
    await expect(quota.emergencyCheck(Number.NaN, true)).rejects.toThrow("cooldown_ms");
  });
});
