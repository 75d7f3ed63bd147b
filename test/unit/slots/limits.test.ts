/** Connection limits of the configured routes. */
import { expect, it } from "vitest";
import { routeLimits, slotLimits } from "../../../src/config/options/slots.js";
import { roomier } from "../../../src/slots/limits.js";

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
