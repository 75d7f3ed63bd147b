/** Connection limits of the configured routes. */
import { expect, it } from "vitest";
import { routeLimits, slotLimits } from "../../../src/config/options/slots.js";
import { roomier } from "../../../src/slots/route-limits.js";

const configured = {
  ...{ max_per_pod: 2, max_total: 10, max_per_app: 0, rate_per_second: 2.5, lease_s: 30 },
  on_store_failure: "local" as const,
};

it("the default burst is the rate of one second, at least one", () => {
  expect(routeLimits(configured)).toEqual({
    ...{ maxPerPod: 2, maxTotal: 10, maxPerApp: 0, ratePerSecond: 2.5, burst: 3, leaseMs: 30_000 },
    onStoreFailure: "local",
  });
  expect(routeLimits({ ...configured, rate_per_second: 0 }).burst).toBe(1);
  expect(routeLimits({ ...configured, burst: 20 }).burst).toBe(20);
});

it("routes are named by host and path, and have their own leases", () => {
  const routes = slotLimits([
    { path: "/", connections: undefined },
    { path: "/a/", connections: configured },
    { path: "/a/", host: "b.example", connections: { ...configured, lease_s: 5 } },
  ]);
  expect([...routes.keys()]).toEqual(["/a/", "b.example/a/"]);
  expect([...routes.values()].map(({ leaseMs }) => leaseMs)).toEqual([30_000, 5_000]);
});

it("a connection admitted under other limits is reclaimed under the higher ones", () => {
  const limits = routeLimits(configured);
  expect(roomier(limits, { ...limits, maxPerPod: 1, maxTotal: 0, maxPerApp: 5 })).toMatchObject({
    ...{ maxPerPod: 2, maxTotal: 0, maxPerApp: 0 },
  });
  expect(roomier(limits, { ...limits, maxPerPod: 9, maxTotal: 4 })).toMatchObject({ maxPerPod: 9, maxTotal: 10 });
});

it("one client may take a quarter of a route's slots by default, at least 20, and never more than half", () => {
  const perClient = (own: object, targets: string[]) =>
    slotLimits([{ path: "/", upstream: "pods", connections: { ...configured, ...own } }], { pods: { targets } }).get(
      "/",
    )?.maxPerClient;
  expect(perClient({ max_per_pod: 25, max_total: 0 }, ["a", "b"])).toBe(20);
  expect(perClient({ max_per_pod: 20, max_total: 0 }, ["a", "b"])).toBe(20);
  const small = [1, 2, 3, 10, 20, 21, 39].map((slots) => perClient({ max_per_pod: slots, max_total: 0 }, ["a"]));
  expect(small).toEqual([1, 1, 1, 5, 10, 10, 19]);
  expect(perClient({ max_per_pod: 100, max_total: 4 }, ["a"])).toBe(2);
  expect(perClient({ max_per_pod: 100, max_total: 0 }, ["a", "b", "c", "d"])).toBe(100);
  expect(perClient({ max_per_pod: 100, max_total: 200 }, ["a", "b", "c", "d"])).toBe(50);
  // From DNS: the number is not known.
  expect(perClient({ max_per_pod: 100, max_total: 0 }, [])).toBe(25);
  expect([perClient({ max_per_client: 0 }, []), perClient({ max_per_client: 3 }, [])]).toEqual([0, 3]);
});

it("one client may make a quarter of the new connections by default, at least 20, and never more than half", () => {
  const perClient = (own: object) =>
    slotLimits([{ path: "/", upstream: "pods", connections: { ...configured, ...own } }]).get("/")?.burstPerClient;
  expect([100, 1_000, 30, 10, 2, 1].map((burst) => perClient({ burst }))).toEqual([25, 250, 15, 5, 1, 1]);
  expect(perClient({ rate_per_second: 200 })).toBe(50);
  expect([perClient({ burst_per_client: 0 }), perClient({ burst_per_client: 7 })]).toEqual([0, 7]);
  expect([perClient({ max_per_client: 0 }), perClient({ max_per_client: 3, burst: 8 })]).toEqual([0, 4]);
});
