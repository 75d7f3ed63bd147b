/** Gateways on one real Redis: the limit is exact, and open connections keep their slots through outages, restarts and lost replies. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { RouteLimits } from "../../../src/slots/route-limits.js";
import { createRouteSlots, type Slots } from "../../../src/slots/slots.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import type { Store } from "../../../src/store/store.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { startTcpProxy } from "../../support/tcp-proxy.js";
import { pause, waitFor } from "../../support/wait-for.js";
import { CLUSTER, type Gateway, limits, ROUTE, startGateway } from "./gateways.js";

let redis: RedisServer;
let beside: Store;
let slots: Slots;
let gateways: Gateway[] = [];

beforeEach(async () => {
  redis = await startRedis();
  beside = createRedisStore({ url: redis.url, deadlineMs: 5_000 });
  slots = createRouteSlots(beside, CLUSTER).of(ROUTE);
});
afterEach(async () => {
  redis.resume();
  await Promise.all(gateways.map((gateway) => gateway.stop()));
  gateways = [];
  await beside.close();
  await redis.stop();
});

function start(route: RouteLimits, own = {}, url = redis.url): Gateway {
  const gateway = startGateway(url, route, own);
  gateways.push(gateway);
  return gateway;
}
const count = async (pod: string, leaseMs = 30_000) => (await slots.counts([pod], leaseMs)).perPod.get(pod);
const live = () => gateways.reduce((sum, { open }) => sum + open.size, 0);
const closed = () => gateways.reduce((sum, gateway) => sum + gateway.closed.length, 0);
const reasonOf = (verdict: { allowed: boolean; body?: string }) => JSON.parse(verdict.body ?? "{}").reason;

describe("two gateways at the same instant", () => {
  it("ten connections to a pod with a limit of two: exactly two are admitted, a hundred times in a row", async () => {
    const both = [start(limits()), start(limits())];
    for (let round = 0; round < 100; round++) {
      const asked = Array.from({ length: 10 }, (_, i) => both[i % 2]!.connect([`pod-${round}`]));
      const verdicts = await Promise.all(asked);
      expect(verdicts.filter((verdict) => verdict.allowed).length, `round ${round}`).toBe(2);
      expect(verdicts.map(reasonOf).filter((reason) => reason === "LIMIT_EXCEEDED").length).toBe(8);
      for (const gateway of both) gateway.endAll();
    }
    await waitFor("all slots to be free", async () => (await slots.counts([], 30_000)).total === 0);
  });

  it("thirty connections to five pods with a limit of two: exactly ten are admitted, two on each", async () => {
    const both = [start(limits()), start(limits())];
    const pods = Array.from({ length: 5 }, (_, i) => `10.0.0.${i}:80`);
    for (let round = 0; round < 10; round++) {
      await Promise.all(Array.from({ length: 30 }, (_, i) => both[i % 2]!.connect(pods)));
      const placed = both.flatMap(({ open }) => [...open.values()].map(({ pod }) => pod));
      expect(placed.sort()).toEqual(pods.flatMap((pod) => [pod, pod]));
      for (const gateway of both) gateway.endAll();
      await waitFor("all slots to be free", async () => (await slots.counts([], 30_000)).total === 0);
    }
  });

  it("admit one new connection per second together, at any load", async () => {
    const route = limits({ maxPerPod: 1_000, ratePerSecond: 1 });
    const both = [start(route), start(route)];
    const began = performance.now();
    const admitted: number[] = [];
    while (performance.now() - began < 4_500) {
      const verdicts = await Promise.all(both.map((gateway) => gateway.connect(["pod-1"])));
      for (const verdict of verdicts) {
        if (verdict.allowed) admitted.push(performance.now());
        else expect(verdict).toMatchObject({ status: 429 });
      }
      await pause(5);
    }
    expect(admitted.length).toBeGreaterThanOrEqual(2);
    expect(admitted.length).toBeLessThanOrEqual(Math.floor((performance.now() - began) / 1_000) + 1);
  });
});

describe("a Redis that fails", () => {
  const short = limits({ maxPerPod: 1_000, leaseMs: 2_000 });
  const quick = { timeoutMs: 400 };

  it("stopped for three leases: no connection is dropped or lost, and new ones get 503 meanwhile", async () => {
    const both = [start(short, quick), start(short, quick)];
    await Promise.all(Array.from({ length: 300 }, (_, i) => both[i % 2]!.connect(["pod-1"])));
    redis.pause();
    const began = performance.now();
    const seen = new Set<number>();
    while (performance.now() - began < 6_000) {
      for (const gateway of both) {
        const verdict = await gateway.connect(["pod-1"]);
        if (!verdict.allowed) seen.add(verdict.status);
      }
      await pause(100);
    }
    expect([...seen]).toEqual([503]);
    redis.resume();
    await waitFor("both gateways to recover", () => both.every(({ keeper }) => keeper.stats().recovered));
    expect([closed(), both.map(({ open }) => open.size)]).toEqual([0, [150, 150]]);
    await waitFor("the count to match the open connections", async () => (await count("pod-1", 2_000)) === live());
    await pause(2_500);
    expect([await count("pod-1", 2_000), live(), closed()]).toEqual([300, 300, 0]);
  });

  it("killed and restarted empty: open connections are reclaimed before new ones are admitted", async () => {
    const route = limits({ leaseMs: 3_000 });
    const both = [start(route, quick), start(route, quick)];
    await both[0]!.connect(["pod-1"]);
    await both[0]!.connect(["pod-1"]);
    const heartbeats = both.map(({ name }) => `ws:{${CLUSTER}/${ROUTE}}:proxy:${name}:heartbeat`);
    await waitFor("heartbeats of both gateways", async () => (await redis.command("EXISTS", ...heartbeats)) === 2);
    await redis.restart();
    let refused = "";
    await waitFor("the open connections to be reclaimed", async () => {
      const verdict = await both[1]!.connect(["pod-1"]);
      expect(verdict.allowed).toBe(false);
      refused = reasonOf(verdict);
      return refused === "LIMIT_EXCEEDED";
    });
    expect([await count("pod-1", 3_000), live(), closed()]).toEqual([2, 2, 0]);
  });

  it("a lost reply takes no second slot", async () => {
    const way = await startTcpProxy(redis.port);
    const gateway = start(limits(), {}, `redis://127.0.0.1:${way.port}`);
    await gateway.connect(["pod-2"]);
    const lost = way.loseReply("SUCCESS");
    const verdicts = await Promise.all([gateway.connect(["pod-1"]), lost]);
    expect(verdicts[0].allowed).toBe(true);
    expect(await count("pod-1")).toBe(1);
    await gateway.stop();
    gateways = [];
    expect((await slots.counts([], 30_000)).total).toBe(0);
    await way.stop();
  });

  it("an acquire that runs after its timeout leaves no slot behind", async () => {
    const gateway = start(limits(), quick);
    await gateway.connect(["pod-9"]);
    redis.pause();
    const verdicts = await Promise.all(Array.from({ length: 5 }, () => gateway.connect(["pod-1", "pod-2"])));
    expect(verdicts.map((verdict) => !verdict.allowed && verdict.status)).toEqual([503, 503, 503, 503, 503]);
    redis.resume();
    await waitFor("the slots to be free", async () => {
      const { perPod } = await slots.counts(["pod-1", "pod-2"], 30_000);
      return [...perPod.values()].every((one) => one === 0) && gateway.keeper.stats().releasesWaiting === 0;
    });
    expect(await count("pod-9")).toBe(1);
  });

  it("the keys of an unused pod expire after a day", async () => {
    const gateway = start(limits({ leaseMs: 1_000 }));
    await gateway.connect(["pod-1"]);
    await waitFor(
      "the expiry time to be set",
      async () => Number(await redis.command("PTTL", `ws:{${CLUSTER}/${ROUTE}}:pod_conn:pod-1`)) > 80_000_000,
    );
  });
});

describe("a gateway that is killed or paused", () => {
  it("killed: its slots expire one lease later, even if the other gateway is idle", async () => {
    const route = limits({ leaseMs: 2_000 });
    const [first] = [start(route), start(route)];
    await first.connect(["pod-1"]);
    await first.connect(["pod-1"]);
    await first.kill();
    gateways = gateways.filter((gateway) => gateway !== first);
    expect(await count("pod-1", 2_000)).toBe(2);
    await waitFor("the slots to be free", async () => (await count("pod-1", 2_000)) === 0, { withinMs: 10_000 });
  });

  it("paused for longer than its lease: it closes connections whose slots others took, and keeps the rest", async () => {
    const route = limits({ leaseMs: 1_500 });
    const [first, second] = [start(route), start(route)];
    await first.connect(["pod-1"]);
    await first.connect(["pod-1"]);
    first.pause();
    await waitFor("an expired slot", async () => (await second.connect(["pod-1"])).allowed, { withinMs: 10_000 });
    await first.resume();
    await waitFor("the recovery", () => first.closed.length === 1 && first.keeper.stats().recovered);
    expect([first.open.size, second.open.size, await count("pod-1", 1_500)]).toEqual([1, 1, 2]);
  });
});
