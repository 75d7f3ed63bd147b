/** Several routes of one process: each has its own limits, leases and contact with the store. */
import { describe, expect, it } from "vitest";
import type { ConnectionVerdict } from "../../../src/slots/connection-admission.js";
import { createRouteSlots } from "../../../src/slots/slots.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { createKeeperBench, LEASE_MS, limits, ROUTE } from "./keeper-bench.js";

const OTHER = "b.example/ws/";
const PODS = ["pod-1"];
const reasonOf = (verdict: ConnectionVerdict) => JSON.parse(verdict.allowed ? "{}" : verdict.body).reason;
const twoRoutes = (more: Parameters<typeof limits>[0] = {}) => ({
  routes: new Map([ROUTE, OTHER].map((route) => [route, limits(more)])),
});

describe("two routes to one pod", () => {
  it("each count their own connections against their own limits", async () => {
    const bench = createKeeperBench();
    const [a, b] = [bench.start("a", twoRoutes({ maxTotal: 2 })), bench.start("b", twoRoutes({ maxTotal: 2 }))];
    for (const process of [a, b]) {
      for (const route of [ROUTE, OTHER]) {
        expect((await process.connectNow(PODS, "chat", route)).allowed).toBe(true);
      }
    }
    for (const route of [ROUTE, OTHER]) {
      expect(reasonOf(await a.connectNow(PODS, "chat", route))).toBe("LIMIT_EXCEEDED");
      expect(await bench.count("pod-1", route)).toBe(2);
    }
    expect(a.keeper.stats()).toMatchObject({
      active: 2,
      pods: [
        { route: ROUTE, pod: "pod-1", active: 1, limit: 2 },
        { route: OTHER, pod: "pod-1", active: 1, limit: 2 },
      ],
    });
    await bench.clock.advance(3 * LEASE_MS);
    expect([await bench.total(ROUTE), await bench.total(OTHER)]).toEqual([2, 2]);
    for (const process of [a, b]) await bench.during(process.keeper.close());
    expect([await bench.total(ROUTE), await bench.total(OTHER)]).toEqual([0, 0]);
  });

  it("each have their own rate of new connections", async () => {
    const bench = createKeeperBench();
    const rate = { ratePerSecond: 0.01, burst: 2, maxPerPod: 10 };
    const [a, b] = [bench.start("a", twoRoutes(rate)), bench.start("b", twoRoutes(rate))];
    for (const route of [ROUTE, OTHER]) {
      for (const process of [a, b]) expect((await process.connectNow(PODS, "chat", route)).allowed).toBe(true);
      for (const process of [a, b])
        expect(reasonOf(await process.connectNow(PODS, "chat", route))).toBe("RATE_LIMITED");
    }
  });

  it("count separately without the store, too", async () => {
    const bench = createKeeperBench();
    const a = bench.start("a", twoRoutes({ onStoreFailure: "open", maxWithoutStore: 2 }));
    a.way.mode = "refusing";
    for (const route of [ROUTE, OTHER]) {
      const verdicts = [];
      for (let i = 0; i < 3; i++) verdicts.push(await a.connectNow(PODS, "chat", route));
      expect(verdicts.map(({ allowed }) => allowed)).toEqual([true, true, false]);
    }
  });
});

describe("a store that fails for one route", () => {
  it("delays no call of another route, and only connections of its own route are decided without it", async () => {
    const bench = createKeeperBench();
    const [a] = [bench.start("a", twoRoutes()), bench.start("b", twoRoutes())];
    await a.connectNow(PODS, "chat", ROUTE);
    await a.connectNow(PODS, "chat", OTHER);
    a.way.hanging = new Set([ROUTE]);
    await bench.clock.advance(2 * LEASE_MS);
    expect(reasonOf(await a.connectNow(PODS, "chat", ROUTE))).toBe("store_unavailable");
    const before = bench.clock.now();
    expect((await a.connectNow(PODS, "chat", OTHER)).allowed).toBe(true);
    expect(bench.clock.now() - before).toBeLessThanOrEqual(5);
    // Nobody renewed the connection on the failed route; the others kept their slots.
    expect([await bench.total(ROUTE), await bench.total(OTHER)]).toEqual([0, 2]);
    a.way.hanging.clear();
    await bench.clock.advance(LEASE_MS);
    expect([await bench.total(ROUTE), await bench.total(OTHER)]).toEqual([1, 2]);
    expect([a.closed, a.seen.lost, a.seen.reclaimed]).toEqual([[], 1, 1]);
  });

  it("a lost release of one route is repeated, and those of the other are made at once", async () => {
    const bench = createKeeperBench();
    const a = bench.start("a", twoRoutes());
    const ids: string[] = [];
    for (const route of [ROUTE, OTHER]) {
      const verdict = await a.connectNow(PODS, "chat", route);
      if (verdict.allowed) ids.push(verdict.slot.connection);
    }
    expect(new Set(ids).size).toBe(2);
    a.way.hanging = new Set([ROUTE]);
    for (const id of ids) a.end(id);
    await bench.clock.advance(20);
    expect([await bench.total(ROUTE), await bench.total(OTHER)]).toEqual([1, 0]);
    a.way.hanging.clear();
    await bench.clock.advance(5_000);
    expect(await bench.total(ROUTE)).toBe(0);
  });
});

describe("a changed list of routes", () => {
  it("keeps the connections of a removed route until they end, and admits no new ones", async () => {
    const bench = createKeeperBench();
    const a = bench.start("a", twoRoutes());
    const verdict = await a.connectNow(PODS, "chat", OTHER);
    a.keeper.reconfigure({ routes: new Map([[ROUTE, limits()]]), timeoutMs: 1_000 });
    await bench.clock.advance(3 * LEASE_MS);
    expect(await bench.total(OTHER)).toBe(1);
    expect(reasonOf(await a.connectNow(PODS, "chat", OTHER))).toBe("no_connections");
    expect((await a.connectNow(PODS, "chat", ROUTE)).allowed).toBe(true);
    if (verdict.allowed) a.end(verdict.slot.connection);
    await bench.clock.advance(1_000);
    expect([await bench.total(ROUTE), await bench.total(OTHER)]).toEqual([1, 0]);
    // Unused keepers are removed with the next change; then nothing is known of the route.
    a.keeper.reconfigure({ routes: new Map([[ROUTE, limits()]]), timeoutMs: 1_000 });
    expect(reasonOf(await a.connectNow(PODS, "chat", OTHER))).toBe("no_connections");
    a.keeper.reconfigure({ ...twoRoutes(), timeoutMs: 1_000 });
    expect((await a.connectNow(PODS, "chat", OTHER)).allowed).toBe(true);
  });

  it("a changed placement counts new connections under new keys, and open ones under the old until they end", async () => {
    let placement: number | undefined;
    const bench = createKeeperBench();
    const store = createEmbeddedStore({ clock: () => (1_800_000_000_000 + bench.clock.now()) * 1000 });
    const slots = createRouteSlots(store, "c1", () => placement);
    const a = bench.start("a", { slots });
    const totals = async () => {
      const found: number[] = [];
      for (const at of [undefined, 3]) {
        placement = at;
        found.push((await slots.of(ROUTE).counts([], LEASE_MS)).total);
      }
      return found;
    };
    const verdict = await a.connectNow();
    placement = 3;
    a.keeper.reconfigure({ routes: new Map([[ROUTE, limits()]]), timeoutMs: 1_000 });
    await a.connectNow();
    await bench.clock.advance(3 * LEASE_MS);
    expect(await totals()).toEqual([1, 1]);
    expect(a.keeper.stats()).toMatchObject({ active: 2, recovered: true });
    if (verdict.allowed) a.end(verdict.slot.connection);
    await bench.clock.advance(1_000);
    expect(await totals()).toEqual([0, 1]);
  });

  it("of 200 routes without connections, a process asks the store for about 27 per second", async () => {
    const bench = createKeeperBench();
    const routes = new Map(Array.from({ length: 200 }, (_, i) => [`/r${i}/`, limits()]));
    const a = bench.start("a", { routes });
    await bench.clock.advance(60_000);
    const before = a.way.calls.renew;
    await bench.clock.advance(60_000);
    expect((a.way.calls.renew - before) / 60).toBeLessThan(30);
    // Leases of other processes still expire in time.
    const b = bench.start("b", { routes });
    await b.connectNow(PODS, "chat", "/r7/");
    b.kill();
    await bench.clock.advance(LEASE_MS + 10_000);
    expect(await bench.total("/r7/")).toBe(0);
  });
});
