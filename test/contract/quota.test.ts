/** Guarantees of grants, reports and returns in L1 and L2, identical on every store. */
import { expect } from "vitest";
import { createQuota, type GrantRequest } from "../support/split-quota.js";
import { type Bench, forEachBackend } from "./backends.js";

const SECOND = 1_000_000;
const app = { id: "video", guaranteed: 100, burst: 200, priority: 1, borrow: false };
const other = { id: "audio", guaranteed: 100, burst: 200, priority: 2, borrow: false };

const quotaOf = (bench: Bench, cluster: { capacity?: number; rate?: number } = {}) =>
  createQuota(bench.store, { id: bench.name, capacity: 1000, rate: 1000, nodeTtlMs: 3000, ...cluster });

const node = (seq: number, name = "n1", epoch = 1) => ({ node: name, epoch, seq });

const ask = (need: number, want = need, known: Partial<GrantRequest> = {}): GrantRequest => ({
  ...{ app, granted: 0, spent: 0, returned: 0, need, want },
  ...known,
});

forEachBackend("quota", (it) => {
  it("a grant takes its tokens from the app and from the cluster", async (bench) => {
    const quota = quotaOf(bench);
    const answer = await quota.grant(node(1), [ask(150)]);
    expect(answer).toMatchObject({ code: "ok", liveNodes: 1, emergency: false });
    expect(answer.apps).toEqual([
      { app: "video", code: "ok", granted: 150, remaining: 50, limit: 200, retryAfterMs: 0, scarce: false },
    ]);
    expect(await quota.inspect(app)).toMatchObject({
      tokens: 50,
      clusterTokens: 850,
      granted: 150,
      spent: 0,
      returned: 0,
    });
  });

  it("an empty app is refused with a retry time, and nothing is taken from the cluster", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(200)]);
    const refused = await quota.grant(node(2), [ask(50, 50, { granted: 200, spent: 200 })]);
    expect(refused.apps[0]).toMatchObject({ code: "quota_exhausted", granted: 200, remaining: 0, retryAfterMs: 500 });
    expect((await quota.inspect(app)).clusterTokens).toBe(800);
    bench.store.clock.now += SECOND / 2;
    const later = await quota.grant(node(3), [ask(50, 50, { granted: 200, spent: 200 })]);
    expect(later.apps[0]).toMatchObject({ code: "ok", granted: 250 });
  });

  it("an empty cluster refuses, and nothing is taken from the app", async (bench) => {
    const quota = quotaOf(bench, { capacity: 100, rate: 10 });
    await quota.grant(node(1), [ask(100)]);
    const refused = await quota.grant(node(2), [ask(20, 20, { granted: 100, spent: 100 })]);
    expect(refused.apps[0]).toMatchObject({ code: "cluster_exhausted", granted: 100, retryAfterMs: 2000 });
    expect((await quota.inspect(app)).tokens).toBe(100);
  });

  it("a need above the capacity is refused without a retry time", async (bench) => {
    const answer = await quotaOf(bench).grant(node(1), [ask(201)]);
    expect(answer.apps[0]).toMatchObject({ code: "cost_exceeds_capacity", granted: 0, retryAfterMs: 0 });
  });

  it("a prefetch gets at most half of the fair share of the remaining tokens; need is not limited by it", async (bench) => {
    const quota = quotaOf(bench);
    await quota.heartbeat({ node: "n2", epoch: 1 });
    await quota.heartbeat({ node: "n3", epoch: 1 });
    await quota.heartbeat({ node: "n4", epoch: 1 });
    const first = await quota.grant(node(1), [ask(0, 1000)]);
    expect(first).toMatchObject({ liveNodes: 4 });
    expect(first.apps[0]).toMatchObject({ granted: 25, remaining: 175 });
    const second = await quota.grant(node(1, "n2"), [ask(120, 1000)]);
    expect(second.apps[0]).toMatchObject({ granted: 126, remaining: 49 });
  });

  it("one call decides many apps independently of each other", async (bench) => {
    const quota = quotaOf(bench);
    const answer = await quota.grant(node(1), [ask(201), ask(30, 30, { app: other })]);
    expect(answer.apps).toMatchObject([
      { app: "video", code: "cost_exceeds_capacity" },
      { app: "audio", code: "ok", granted: 30 },
    ]);
  });

  it("a repeated message is charged once and gets the same reply", async (bench) => {
    const quota = quotaOf(bench);
    const first = await quota.grant(node(1), [ask(60)]);
    bench.store.clock.now += SECOND;
    expect(await quota.grant(node(1), [ask(60)])).toEqual(first);
    expect(await quota.inspect(app)).toMatchObject({ tokens: 140, granted: 60 });
  });

  it("a message that arrives after a later one changes nothing", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(2), [ask(60)]);
    expect(await quota.grant(node(1), [ask(60)])).toMatchObject({ code: "stale_message", apps: [] });
    expect(await quota.inspect(app)).toMatchObject({ tokens: 140, granted: 60 });
  });

  it("tokens of a reply that was lost are delivered with the next one, not granted again", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(60)]);
    const next = await quota.grant(node(2), [ask(70)]);
    expect(next.apps[0]).toMatchObject({ granted: 70, remaining: 130 });
  });

  it("spend that was never granted is charged to L1 and L2, once", async (bench) => {
    const quota = quotaOf(bench);
    await quota.report(node(1), [{ app, granted: 0, spent: 80, returned: 0 }], false);
    await quota.report(node(2), [{ app, granted: 80, spent: 80, returned: 0 }], false);
    expect(await quota.inspect(app)).toMatchObject({ tokens: 120, clusterTokens: 920, granted: 80, spent: 80 });
  });

  it("debt is not capped", async (bench) => {
    const quota = quotaOf(bench);
    await quota.report(node(1), [{ app, granted: 0, spent: 100_000, returned: 0 }], false);
    expect((await quota.inspect(app)).tokens).toBe(200 - 100_000);
    const refused = await quota.grant(node(2), [ask(10, 10, { granted: 100_000, spent: 100_000 })]);
    expect(refused.apps[0]).toMatchObject({ code: "quota_exhausted", retryAfterMs: 998_100 });
  });

  it("returned tokens are added to L1 and L2, once", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(100)]);
    await quota.report(node(2), [{ app, granted: 100, spent: 30, returned: 70 }], false);
    await quota.report(node(2), [{ app, granted: 100, spent: 30, returned: 70 }], false);
    await quota.report(node(3), [{ app, granted: 100, spent: 30, returned: 70 }], false);
    expect(await quota.inspect(app)).toMatchObject({ tokens: 170, clusterTokens: 970, spent: 30, returned: 70 });
  });

  it("a refund lowers what was spent", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(100)]);
    await quota.report(node(2), [{ app, granted: 100, spent: 90, returned: 0 }], false);
    await quota.report(node(3), [{ app, granted: 100, spent: 40, returned: 0 }], false);
    expect(await quota.inspect(app)).toMatchObject({ granted: 100, spent: 40, returned: 0 });
    expect(await quota.ledger("n1@1")).toMatchObject({ held: 60, closed: false });
  });

  it("a node that leaves returns all its tokens and is no longer counted", async (bench) => {
    const quota = quotaOf(bench);
    await quota.heartbeat({ node: "n2", epoch: 1 });
    await quota.grant(node(1), [ask(100)]);
    const left = await quota.report(node(2), [{ app, granted: 100, spent: 30, returned: 0 }], true);
    expect(left.liveNodes).toBe(1);
    expect(await quota.inspect(app)).toMatchObject({ tokens: 170, returned: 70 });
    expect(await quota.grant(node(3), [ask(10, 10, { granted: 100, spent: 30 })])).toMatchObject({
      code: "epoch_closed",
      apps: [],
    });
  });

  it("grants that the store lost in a failover are charged from the node's counters", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(20)]);
    await quota.grant(node(2), [ask(10, 10, { granted: 70, spent: 0 })]);
    expect(await quota.inspect(app)).toMatchObject({ tokens: 120, granted: 80, clusterTokens: 920 });
  });

  it("a store that lost all data charges the tokens that nodes still hold, not their past spend", async (bench) => {
    const quota = quotaOf(bench);
    const before = { granted: 5000, spent: 4900, returned: 60 };
    expect(await quota.grant(node(900), [ask(10, 10, before)])).toMatchObject({ known: false });
    expect(await quota.inspect(app)).toMatchObject({ tokens: 150, granted: 50, spent: 0, returned: 0 });
    expect(await quota.grant(node(901), [ask(10, 10, { ...before, app: other })])).toMatchObject({ known: true });
    expect(await quota.inspect(other)).toMatchObject({ tokens: 150, granted: 50, spent: 0, returned: 0 });
  });

  it("a message that claims grants and returns them at once creates no tokens", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(150)]);
    await quota.grant(node(2), [ask(0, 0, { granted: 1150, spent: 150, returned: 1000 })]);
    expect(await quota.inspect(app)).toMatchObject({ tokens: 50, clusterTokens: 850 });
    await quota.report(node(3), [{ app, granted: 1150, spent: 150, returned: 1150 }], false);
    expect(await quota.inspect(app)).toMatchObject({ tokens: 50, clusterTokens: 850 });
  });

  it("a reduced limit lowers the bucket to the new burst, an increased limit keeps the tokens", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(50)]);
    expect((await quota.inspect({ ...app, burst: 100 })).tokens).toBe(50);
    expect((await quota.inspect({ ...app, burst: 1000 })).tokens).toBe(150);
  });

  it("tokens on leases count towards the capacity of both layers until they are reported as spent", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(150)]);
    bench.store.clock.now += 10 * SECOND;
    expect(await quota.inspect(app)).toMatchObject({ tokens: 50, clusterTokens: 850 });
    await quota.report(node(2), [{ app, granted: 150, spent: 90, returned: 0 }], false);
    // The time before the report refilled nothing.
    expect(await quota.inspect(app)).toMatchObject({ tokens: 50, clusterTokens: 850 });
    bench.store.clock.now += 10 * SECOND;
    expect(await quota.inspect(app)).toMatchObject({ tokens: 140, clusterTokens: 940 });
    await quota.report(node(3), [{ app, granted: 150, spent: 90, returned: 60 }], false);
    expect(await quota.inspect(app)).toMatchObject({ tokens: 200, clusterTokens: 1000 });
  });

  it("a refund that arrives when the bucket is full again does not exceed the capacity", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(100)]);
    await quota.report(node(2), [{ app, granted: 100, spent: 100, returned: 0 }], false);
    bench.store.clock.now += 10 * SECOND;
    await quota.report(node(3), [{ app, granted: 100, spent: 60, returned: 0 }], false);
    expect(await quota.inspect(app)).toMatchObject({ tokens: 160, clusterTokens: 960 });
    await quota.report(node(4), [{ app, granted: 100, spent: 20, returned: 40 }], false);
    expect(await quota.inspect(app)).toMatchObject({ tokens: 160, clusterTokens: 960, returned: 40 });
  });

  it("a clock that steps back refills nothing; one that jumps an hour ahead fills to the burst", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(200)]);
    bench.store.clock.now -= 3600 * SECOND;
    const back = await quota.grant(node(2), [ask(1, 1, { granted: 200, spent: 200 })]);
    expect(back.apps[0]).toMatchObject({ code: "quota_exhausted", remaining: 0 });
    bench.store.clock.now += SECOND / 10;
    expect((await quota.inspect(app)).tokens).toBe(10);
    bench.store.clock.now += 3600 * SECOND;
    expect((await quota.inspect(app)).tokens).toBe(200);
  });

  it("fractions of a token are not lost in a refill", async (bench) => {
    const quota = quotaOf(bench);
    const slow = { ...app, guaranteed: 1 / 60, burst: 1 };
    await quota.grant(node(1), [ask(1, 1, { app: slow })]);
    const refused = await quota.grant(node(2), [ask(1, 1, { app: slow, granted: 1, spent: 1 })]);
    expect(refused.apps[0]?.retryAfterMs).toBeGreaterThanOrEqual(60_000);
    bench.store.clock.now += 60.01 * SECOND;
    const later = await quota.grant(node(3), [ask(1, 1, { app: slow, granted: 1, spent: 1 })]);
    expect(later.apps[0]).toMatchObject({ code: "ok", granted: 2 });
  });

  it("invalid amounts are rejected with their name, and no bucket changes", async (bench) => {
    const quota = quotaOf(bench);
    await quota.grant(node(1), [ask(50)]);
    const before = await quota.inspect(app);
    const bad = [Number.NaN, -1, 0.5, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e308, 2 ** 53];
    for (const value of bad) {
      for (const field of ["granted", "spent", "returned", "need", "want"] as const) {
        const call = quota.grant(node(2), [ask(1, 1, { granted: 50, [field]: value })]);
        await expect(call, `${field} ${value}`).rejects.toMatchObject({ name: "InvalidArgument", field });
      }
      for (const field of ["burst", "guaranteed", "priority"] as const) {
        // Rates have a resolution of one millionth: half a token per second is valid.
        if (field === "guaranteed" && value === 0.5) continue;
        const call = quota.grant(node(2), [ask(1, 1, { app: { ...app, [field]: value } })]);
        await expect(call, `${field} ${value}`).rejects.toThrow(field);
      }
      await expect(quota.grant(node(value), [ask(1)])).rejects.toThrow("seq");
    }
    await expect(quota.grant(node(2), [ask(1), ask(1)])).rejects.toThrow("app given twice");
    await expect(quota.grant(node(2), [ask(1, 1, { app: { ...app, id: "a b" } })])).rejects.toThrow("app");
    await expect(quota.grant(node(2), [ask(1, 1, { granted: 5, returned: 6 })])).rejects.toThrow("returned");
    expect(await quota.inspect(app)).toEqual(before);
  });

  it("app ids can be names of built-in JavaScript properties", async (bench) => {
    const quota = quotaOf(bench);
    const names = ["__proto__", "constructor", "toString"];
    const answer = await quota.grant(
      node(1),
      names.map((id) => ask(10, 10, { app: { ...app, id } })),
    );
    expect(answer.apps.map((grant) => grant.granted)).toEqual([10, 10, 10]);
  });
});
