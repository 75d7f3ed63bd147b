/** Connection slots: limits are never exceeded, on every store. */
import { expect } from "vitest";
import { routeTag } from "../../src/slots/route-tag.js";
import { createRouteSlots, createSlots, type SlotLimits, type SlotRequest } from "../../src/slots/slots.js";
import { InvalidArgument } from "../../src/store/errors.js";
import { type Bench, forEachBackend } from "./backends.js";

const SECOND = 1_000_000;
const limits: SlotLimits = {
  ...{ maxPerPod: 2, maxTotal: 0, maxPerApp: 0 },
  ...{ ratePerSecond: 0, burst: 1, leaseMs: 30_000 },
};
const held = (connection: string, pod = "pod-1", app = "chat") => ({ connection, pod, app });
const asked = (connection: string, more: Partial<SlotRequest> = {}): SlotRequest => ({
  ...{ proxy: "p1", connection, app: "chat", pods: ["pod-1"] },
  ...more,
});
const slotsOf = (bench: Bench) => createSlots(bench.store, routeTag(bench.name, "/ws/"));

/** Advances the clock while proxies renew at a third of their lease, as they do in production. */
async function pass(bench: Bench, slots: ReturnType<typeof slotsOf>, seconds: number, proxy = "p9"): Promise<void> {
  for (let left = seconds; left > 0; left -= 10) {
    bench.store.clock.now += Math.min(left, 10) * SECOND;
    await slots.renew(proxy, limits.leaseMs, []);
  }
}

forEachBackend("slots", (it) => {
  it("a pod accepts connections up to its limit, and counts them", async (bench) => {
    const slots = slotsOf(bench);
    expect(await slots.acquire(asked("c1"), limits)).toMatchObject({
      allowed: true,
      count: 1,
      code: "SUCCESS",
      pod: "pod-1",
    });
    expect(await slots.acquire(asked("c2"), limits)).toMatchObject({ allowed: true, count: 2, code: "SUCCESS" });
    expect(await slots.acquire(asked("c3"), limits)).toMatchObject({
      allowed: false,
      count: 2,
      code: "LIMIT_EXCEEDED",
      pod: "",
    });
    const counts = await slots.counts(["pod-1", "pod-2"], limits.leaseMs);
    expect(counts).toEqual({
      total: 2,
      rejected: 1,
      perPod: new Map([
        ["pod-1", 2],
        ["pod-2", 0],
      ]),
    });
  });

  it("a repeated acquire keeps its slot; the same id from another proxy is another connection", async (bench) => {
    const slots = slotsOf(bench);
    await slots.acquire(asked("c1"), limits);
    expect(await slots.acquire(asked("c1"), limits)).toMatchObject({
      allowed: true,
      count: 1,
      code: "ALREADY_HELD",
      pod: "pod-1",
    });
    expect(await slots.acquire(asked("c1", { proxy: "p2" }), limits)).toMatchObject({
      allowed: true,
      count: 2,
      code: "SUCCESS",
    });
  });

  it("the least loaded pod with a free slot is chosen; a connection is refused only if all are full", async (bench) => {
    const slots = slotsOf(bench);
    const pods = ["pod-1", "pod-2", "pod-3"];
    const placed = [];
    for (let i = 0; i < 7; i++) placed.push((await slots.acquire(asked(`c${i}`, { pods }), limits)).pod);
    expect(placed).toEqual(["pod-1", "pod-2", "pod-3", "pod-1", "pod-2", "pod-3", ""]);
    expect(await slots.acquire(asked("c4", { pods }), limits)).toMatchObject({ code: "ALREADY_HELD", pod: "pod-2" });
  });

  it("the total limit and the limit per app hold across pods", async (bench) => {
    const slots = slotsOf(bench);
    await slots.acquire(asked("c1"), limits);
    const total = { ...limits, maxTotal: 1 };
    const elsewhere = { pods: ["pod-2"], app: "other" };
    expect(await slots.acquire(asked("c2", elsewhere), total)).toMatchObject({ code: "TOTAL_LIMIT_EXCEEDED" });
    const perApp = { ...limits, maxPerApp: 1 };
    expect(await slots.acquire(asked("c3", { pods: ["pod-2"] }), perApp)).toMatchObject({ code: "APP_LIMIT_EXCEEDED" });
    expect(await slots.acquire(asked("c4", elsewhere), perApp)).toMatchObject({ code: "SUCCESS", count: 1 });
  });

  it("a client has at most its share of the slots, on all proxies together; others are admitted", async (bench) => {
    const slots = slotsOf(bench);
    const perClient = { ...limits, maxPerPod: 10, maxPerClient: 2 };
    const of = (client: string, connection: string, proxy = "p1") =>
      slots.acquire(asked(connection, { client, proxy, pods: ["pod-1", "pod-2"] }), perClient);
    expect(await of("10.0.0.1", "c1")).toMatchObject({ code: "SUCCESS" });
    expect(await of("10.0.0.1", "c1")).toMatchObject({ code: "ALREADY_HELD" });
    expect(await of("10.0.0.1", "c1", "p2")).toMatchObject({ code: "SUCCESS" });
    expect(await of("10.0.0.1", "c2", "p2")).toMatchObject({ allowed: false, code: "CLIENT_LIMIT_EXCEEDED", pod: "" });
    expect(await of("2001:db8::", "c2")).toMatchObject({ code: "SUCCESS" });
    // A proxy that does not know the client, as those of an earlier version.
    for (const id of ["c3", "c4", "c5"])
      expect(await slots.acquire(asked(id), perClient)).toMatchObject({ allowed: true });
    const released = { ...held("c1"), client: "10.0.0.1" };
    expect(await slots.release("p1", limits.leaseMs, [released])).toMatchObject({ released: 1 });
    expect(await slots.release("p1", limits.leaseMs, [released])).toMatchObject({ released: 0 });
    expect(await of("10.0.0.1", "c6")).toMatchObject({ code: "SUCCESS" });
    expect(await of("10.0.0.1", "c7")).toMatchObject({ code: "CLIENT_LIMIT_EXCEEDED" });
  });

  it("a client's slots stay counted while they are renewed, and are free when their leases end", async (bench) => {
    const slots = slotsOf(bench);
    const perClient = { ...limits, maxPerPod: 10, maxPerClient: 1 };
    const of = (connection: string) => slots.acquire(asked(connection, { client: "10.0.0.1" }), perClient);
    await of("c1");
    const mine = { ...held("c1"), client: "10.0.0.1" };
    for (let i = 0; i < 9; i++) {
      await pass(bench, slots, 10);
      expect(await slots.renew("p1", limits.leaseMs, [mine])).toMatchObject({ renewed: 1 });
    }
    expect(await of("c2")).toMatchObject({ code: "CLIENT_LIMIT_EXCEEDED" });
    await pass(bench, slots, 30);
    expect(await of("c3")).toMatchObject({ code: "SUCCESS" });
  });

  it("a renewal or release that names another client than the acquire changes nothing", async (bench) => {
    const slots = slotsOf(bench);
    const perClient = { ...limits, maxPerPod: 10, maxPerClient: 1 };
    await slots.acquire(asked("c1", { client: "10.0.0.1" }), perClient);
    for (const client of ["10.0.0.2", ""]) {
      const other = { ...held("c1"), client };
      expect(await slots.renew("p1", limits.leaseMs, [other])).toMatchObject({ renewed: 0, lost: ["c1"] });
      expect(await slots.release("p1", limits.leaseMs, [other])).toMatchObject({ released: 0, unknown: ["c1"] });
    }
    const next = asked("c2", { client: "10.0.0.1" });
    expect(await slots.acquire(next, perClient)).toMatchObject({ code: "CLIENT_LIMIT_EXCEEDED" });
    expect(await slots.acquire({ ...next, client: "10.0.0.2" }, perClient)).toMatchObject({ code: "SUCCESS" });
  });

  it("the rate is a sliding window; a refused connection does not count", async (bench) => {
    const slots = slotsOf(bench);
    const slow = { ...limits, maxPerPod: 100, ratePerSecond: 1 };
    const at = async (seconds: number, id: string) => {
      bench.store.clock.now += seconds * SECOND;
      const answer = await slots.acquire(asked(id), slow);
      return [answer.code, answer.retryAfterMs];
    };
    expect(await at(0.9, "c1")).toEqual(["SUCCESS", 0]);
    expect(await at(0.2, "c2")).toEqual(["RATE_LIMITED", 800]);
    expect(await at(0.7999, "c3")).toEqual(["RATE_LIMITED", 1]);
    expect(await at(0.0001, "c4")).toEqual(["SUCCESS", 0]);
    expect(await at(0.5, "c4")).toEqual(["ALREADY_HELD", 0]);
    expect(await at(0.5, "c5")).toEqual(["SUCCESS", 0]);
  });

  it("a client has at most its share of the new connections, on all proxies together; others are admitted", async (bench) => {
    const slots = slotsOf(bench);
    const rated = { ...limits, maxPerPod: 100, ratePerSecond: 4, burst: 4, burstPerClient: 2 };
    let made = 0;
    const from = async (client: string, proxy = "p1") => {
      const answer = await slots.acquire(asked(`c${made++}`, { client, proxy }), rated);
      return [answer.code, answer.retryAfterMs];
    };
    const refused = (retryAfterMs: number) => ["CLIENT_RATE_LIMITED", retryAfterMs];
    expect([await from("10.0.0.1"), await from("10.0.0.1", "p2")]).toEqual([
      ["SUCCESS", 0],
      ["SUCCESS", 0],
    ]);
    for (let i = 0; i < 20; i++) expect(await from("10.0.0.1")).toEqual(refused(1000));
    expect([await from("10.0.0.2"), await from("2001:db8::")]).toEqual([
      ["SUCCESS", 0],
      ["SUCCESS", 0],
    ]);
    expect(await from("10.0.0.3")).toEqual(["RATE_LIMITED", 1000]);
    bench.store.clock.now += SECOND * 0.4;
    expect(await from("10.0.0.1")).toEqual(refused(600));
    bench.store.clock.now += SECOND * 0.6;
    expect(await from("10.0.0.1")).toEqual(["SUCCESS", 0]);
    // Repeated calls, and connections that exist and lost their lease, do not count.
    const lost = { client: "10.0.0.2", reclaim: true };
    for (const id of ["r1", "r2", "r3", "r3"])
      expect(await slots.acquire(asked(id, lost), rated)).toMatchObject({ allowed: true });
    expect([await from("10.0.0.2"), await from("10.0.0.2"), await from("10.0.0.2")]).toEqual([
      ["SUCCESS", 0],
      ["SUCCESS", 0],
      refused(1000),
    ]);
  });

  it("at one new connection per second, a client cannot have two in a row", async (bench) => {
    const slots = slotsOf(bench);
    const slow = { ...limits, maxPerPod: 100, ratePerSecond: 1, burst: 1, burstPerClient: 1 };
    const from = async (client: string, id: string) => (await slots.acquire(asked(id, { client }), slow)).code;
    expect(await from("10.0.0.1", "c1")).toBe("SUCCESS");
    bench.store.clock.now += SECOND;
    expect(await from("10.0.0.1", "c2")).toBe("CLIENT_RATE_LIMITED");
    expect(await from("10.0.0.2", "c3")).toBe("SUCCESS");
    bench.store.clock.now += SECOND;
    expect(await from("10.0.0.1", "c4")).toBe("SUCCESS");
  });

  it("with a burst of three at one per second there are never more than three in any three seconds", async (bench) => {
    const slots = slotsOf(bench);
    const burst = { ...limits, maxPerPod: 1000, ratePerSecond: 1, burst: 3 };
    const times: number[] = [];
    for (let i = 0; i < 120; i++) {
      bench.store.clock.now += 0.1 * SECOND;
      if ((await slots.acquire(asked(`c${i}`), burst)).allowed) times.push(bench.store.clock.now);
    }
    expect(times.length).toBe(12);
    for (const from of times) {
      expect(times.filter((time) => time >= from && time < from + 3 * SECOND).length).toBeLessThanOrEqual(3);
    }
  });

  it("an expired lease frees its slot", async (bench) => {
    const slots = slotsOf(bench);
    await slots.acquire(asked("c1"), limits);
    await slots.acquire(asked("c2"), limits);
    await pass(bench, slots, 29.9);
    expect(await slots.acquire(asked("c3"), limits)).toMatchObject({ code: "LIMIT_EXCEEDED", reclaimed: 0 });
    await pass(bench, slots, 0.1);
    expect((await slots.counts(["pod-1"], limits.leaseMs)).total).toBe(0);
    expect(await slots.acquire(asked("c3"), limits)).toMatchObject({ code: "SUCCESS", count: 1, reclaimed: 2 });
  });

  it("a renewed lease does not expire", async (bench) => {
    const slots = slotsOf(bench);
    await slots.acquire(asked("c1"), limits);
    for (let i = 0; i < 10; i++) {
      await pass(bench, slots, 10);
      expect(await slots.renew("p1", limits.leaseMs, [held("c1")])).toMatchObject({ renewed: 1, lost: [] });
    }
    expect((await slots.counts(["pod-1"], limits.leaseMs)).perPod.get("pod-1")).toBe(1);
  });

  it("a holder that was paused learns that its slot is lost, and cannot reclaim it on a full pod", async (bench) => {
    const slots = slotsOf(bench);
    await slots.acquire(asked("c1"), limits);
    await slots.acquire(asked("c2"), limits);
    await pass(bench, slots, 30);
    await slots.acquire(asked("c3", { proxy: "p2" }), limits);
    await slots.acquire(asked("c4", { proxy: "p2" }), limits);
    expect(await slots.renew("p1", limits.leaseMs, [held("c1"), held("c2")])).toMatchObject({
      renewed: 0,
      lost: ["c1", "c2"],
    });
    expect(await slots.acquire(asked("c1", { reclaim: true }), limits)).toMatchObject({
      code: "LIMIT_EXCEEDED",
      count: 2,
    });
  });

  it("a lost lease is not renewed even if the slot is free; reclaiming it does not count for the rate", async (bench) => {
    const slots = slotsOf(bench);
    const slow = { ...limits, ratePerSecond: 0.001 };
    await slots.acquire(asked("c1"), slow);
    await pass(bench, slots, 30);
    expect((await slots.renew("p1", limits.leaseMs, [held("c1")])).lost).toEqual(["c1"]);
    expect(await slots.acquire(asked("c1"), slow)).toMatchObject({ code: "RATE_LIMITED" });
    expect(await slots.acquire(asked("c1", { reclaim: true }), slow)).toMatchObject({ code: "SUCCESS" });
  });

  it("a release frees the slot at once; repeating it is harmless", async (bench) => {
    const slots = slotsOf(bench);
    await slots.acquire(asked("c1"), limits);
    await slots.acquire(asked("c2", { pods: ["pod-2"] }), limits);
    const both = [held("c1"), held("c2", "pod-2")];
    expect(await slots.release("p1", limits.leaseMs, both)).toEqual({ released: 2, unknown: [] });
    expect(await slots.release("p1", limits.leaseMs, both)).toEqual({ released: 0, unknown: ["c1", "c2"] });
    expect((await slots.counts(["pod-1", "pod-2"], limits.leaseMs)).total).toBe(0);
  });

  it("an acquire that arrives after its release takes no slot", async (bench) => {
    const slots = slotsOf(bench);
    await slots.release("p1", limits.leaseMs, [held("c1")]);
    expect(await slots.acquire(asked("c1"), limits)).toMatchObject({ allowed: false, code: "RELEASED" });
    await pass(bench, slots, 30);
    expect(await slots.acquire(asked("c1"), limits)).toMatchObject({ allowed: true, code: "SUCCESS" });
  });

  it("an outage, or a clock that jumps an hour ahead, ends no lease before its holder can renew it", async (bench) => {
    const slots = slotsOf(bench);
    await slots.acquire(asked("c1"), limits);
    bench.store.clock.now += 10 * SECOND;
    await slots.renew("p9", limits.leaseMs, []);
    bench.store.clock.now += 3600 * SECOND;
    expect(await slots.acquire(asked("c2"), { ...limits, maxPerPod: 1 })).toMatchObject({ code: "LIMIT_EXCEEDED" });
    expect(await slots.renew("p1", limits.leaseMs, [held("c1")])).toMatchObject({ renewed: 1, lost: [] });
  });

  it("a clock that steps back ends no lease and does not block new connections", async (bench) => {
    const slots = slotsOf(bench);
    const slow = { ...limits, ratePerSecond: 1 };
    await slots.acquire(asked("c1"), slow);
    bench.store.clock.now -= 3600 * SECOND;
    expect(await slots.acquire(asked("c2"), slow)).toMatchObject({ code: "RATE_LIMITED", retryAfterMs: 1000 });
    bench.store.clock.now += SECOND;
    expect(await slots.acquire(asked("c2"), slow)).toMatchObject({ code: "SUCCESS", count: 2 });
  });

  it("a thousand connections are renewed in batches, each with its own result", async (bench) => {
    const slots = slotsOf(bench);
    const wide = { ...limits, maxPerPod: 1000 };
    const ids = Array.from({ length: 300 }, (_, i) => `c${i}`);
    for (const id of ids) await slots.acquire(asked(id, { pods: ["pod-1", "pod-2", "pod-3"] }), wide);
    const batch = ids.map((id, i) => held(id, `pod-${(i % 3) + 1}`));
    batch.splice(100, 1, held("stranger"));
    const answer = await slots.renew("p1", limits.leaseMs, batch);
    expect(answer).toMatchObject({ renewed: 299, lost: ["stranger"] });
  });

  it("the store incarnation does not change when the store's clock jumps", async (bench) => {
    const slots = slotsOf(bench);
    const began = String(bench.store.clock.now);
    expect((await slots.renew("p1", limits.leaseMs, [])).incarnation).toBe(began);
    await pass(bench, slots, 100);
    bench.store.clock.now -= 3600 * SECOND;
    await slots.release("p1", limits.leaseMs, [held("c9")]);
    expect((await slots.acquire(asked("c1"), limits)).incarnation).toBe(began);
    expect((await slots.acquire(asked("c1"), limits)).incarnation).toBe(began);
    expect((await slots.acquire(asked("c9"), limits)).incarnation).toBe(began);
    expect((await slots.renew("p1", limits.leaseMs, [held("c1")])).incarnation).toBe(began);
  });

  it("a caller with another store incarnation gets no slot before it has renewed its connections", async (bench) => {
    const slots = slotsOf(bench);
    const began = bench.store.clock.now;
    await slots.renew("p1", limits.leaseMs, []);
    const incarnation = String(began - SECOND);
    expect(await slots.acquire(asked("c1", { incarnation }), limits)).toMatchObject({
      allowed: false,
      code: "FORGOTTEN",
      pod: "",
      incarnation: String(began),
    });
    expect(await slots.acquire(asked("c2", { incarnation, reclaim: true }), limits)).toMatchObject({ code: "SUCCESS" });
    expect(await slots.acquire(asked("c3", { incarnation: String(began) }), limits)).toMatchObject({
      code: "SUCCESS",
      count: 2,
    });
    expect(await slots.counts(["pod-1"], limits.leaseMs)).toMatchObject({ total: 2, rejected: 0 });
  });

  it("clusters and routes that share a store share no limit, rate, release or clock", async (bench) => {
    const tight: SlotLimits = { ...limits, maxPerPod: 1, maxTotal: 1, maxPerApp: 1, ratePerSecond: 0.001 };
    const all = [
      createRouteSlots(bench.store, bench.name).of("/ws/"),
      createRouteSlots(bench.store, bench.name).of("a.example/ws/"),
      createRouteSlots(bench.store, `${bench.name}-staging`).of("/ws/"),
    ];
    const began: number[] = [];
    for (const slots of all) {
      began.push(bench.store.clock.now);
      expect(await slots.acquire(asked("c1"), tight)).toMatchObject({ code: "SUCCESS", count: 1 });
      expect(await slots.acquire(asked("c2"), tight)).toMatchObject({ code: "LIMIT_EXCEEDED", count: 1 });
      bench.store.clock.now += SECOND;
    }
    const [first, ...others] = all;
    await first!.release("p1", limits.leaseMs, [held("c1")]);
    expect(await first!.acquire(asked("c1"), limits)).toMatchObject({ code: "RELEASED" });
    expect(await first!.counts(["pod-1"], limits.leaseMs)).toMatchObject({ total: 0, rejected: 2 });
    for (const [i, slots] of others.entries()) {
      expect(await slots.counts(["pod-1"], limits.leaseMs)).toMatchObject({ total: 1, rejected: 1 });
      const renewed = await slots.renew("p1", limits.leaseMs, [held("c1")]);
      expect(renewed).toEqual({ renewed: 1, lost: [], incarnation: String(began[i + 1]) });
      expect(await slots.acquire(asked("c1"), tight)).toMatchObject({ code: "ALREADY_HELD" });
    }
  });

  it("invalid limits, leases and ids are rejected with their name, and nothing changes", async (bench) => {
    const slots = slotsOf(bench);
    for (const value of [Number.NaN, -1, 0.5, Number.POSITIVE_INFINITY, 1e308]) {
      for (const field of [
        "maxPerPod",
        "maxTotal",
        "maxPerApp",
        "maxPerClient",
        "burstPerClient",
        "leaseMs",
      ] as const) {
        const call = slots.acquire(asked("c1"), { ...limits, [field]: value });
        await expect(call, `${field} ${value}`).rejects.toThrow(InvalidArgument);
      }
      await expect(slots.renew("p1", value, [held("c1")])).rejects.toThrow("lease_ms");
      await expect(slots.release("p1", value, [held("c1")])).rejects.toThrow("lease_ms");
      await expect(slots.counts([], value)).rejects.toThrow("lease_ms");
    }
    await expect(slots.acquire(asked("c1", { incarnation: "-1" }), limits)).rejects.toThrow("memory");
    await expect(slots.acquire(asked("a/b"), limits)).rejects.toThrow("connection");
    await expect(slots.acquire(asked("c1", { client: "a/b" }), limits)).rejects.toThrow("client");
    await expect(slots.renew("p1", 1000, [{ ...held("c1"), client: "{}" }])).rejects.toThrow("client");
    await expect(slots.acquire(asked("c1", { proxy: "" }), limits)).rejects.toThrow("proxy");
    await expect(slots.acquire(asked("c1", { pods: [] }), limits)).rejects.toThrow("pods");
    await expect(slots.renew("p 1", 1000, [])).rejects.toThrow("proxy");
    await expect(slots.release("p1", 1000, [held("{}")])).rejects.toThrow("connection");
    expect(await slots.counts(["pod-1"], limits.leaseMs)).toMatchObject({ total: 0, rejected: 0 });
  });
});
