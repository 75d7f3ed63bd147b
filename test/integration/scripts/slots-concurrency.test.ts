/** Concurrent acquires never exceed the limit of a pod. The store uses its real clock. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createSlots } from "../../../src/slots/slots.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import type { Store } from "../../../src/store/store.js";
import { startRedisCluster } from "../../support/redis-cluster.js";
import { startRedis } from "../../support/redis-server.js";

const ROUNDS = 100;
const limits = { maxPerPod: 2, maxTotal: 0, maxPerApp: 0, ratePerSecond: 0, burst: 1, leaseMs: 30_000 };

interface Clients {
  stores: Store[];
  stop(): Promise<void>;
}

/** Five clients with their own connections. The embedded store is one object, which they share. */
const backends: { name: string; start(): Promise<Clients> }[] = [
  {
    name: "embedded",
    start: async () => {
      const store = createEmbeddedStore();
      return { stores: Array.from({ length: 5 }, () => store), stop: () => store.close() };
    },
  },
  ...[
    { name: "redis", server: () => startRedis() },
    { name: "redis-cluster", server: () => startRedisCluster() },
  ].map(({ name, server }) => ({
    name,
    start: async () => {
      const running = await server();
      const stores = Array.from({ length: 5 }, () => createRedisStore({ url: running.url, deadlineMs: 10_000 }));
      const stop = async () => {
        await Promise.all(stores.map((store) => store.close()));
        await running.stop();
      };
      return { stores, stop };
    },
  })),
];

describe.each(backends)("concurrent acquires on $name", ({ start }) => {
  let clients: Clients;
  beforeAll(async () => {
    clients = await start();
  });
  afterAll(() => clients?.stop());

  it(`ten on a pod with two slots: exactly two succeed, ${ROUNDS} times in a row`, async () => {
    const slots = clients.stores.map((store) => createSlots(store, "c1//ws/"));
    for (let round = 0; round < ROUNDS; round++) {
      const pods = [`pod-${round}`];
      const attempts = Array.from({ length: 10 }, (_, i) => {
        const request = { proxy: `p${i % 5}`, connection: `c${i}`, app: "chat", pods };
        return slots[i % 5]!.acquire(request, limits);
      });
      const answers = await Promise.all(attempts);
      expect(answers.filter((answer) => answer.code === "SUCCESS").length, `round ${round}`).toBe(2);
      expect(answers.filter((answer) => answer.code === "LIMIT_EXCEEDED").length).toBe(8);
    }
  });

  it("thirty on five pods with two slots each: exactly ten succeed, two on each pod", async () => {
    const slots = clients.stores.map((store) => createSlots(store, "c1//ws/"));
    for (let round = 0; round < 20; round++) {
      const pods = Array.from({ length: 5 }, (_, i) => `fleet-${round}-${i}`);
      const attempts = Array.from({ length: 30 }, (_, i) => {
        const request = { proxy: `p${i % 5}`, connection: `f${round}-${i}`, app: "chat", pods };
        return slots[i % 5]!.acquire(request, limits);
      });
      const allowed = (await Promise.all(attempts)).filter((answer) => answer.allowed);
      expect(allowed.map((answer) => answer.pod).sort()).toEqual(pods.flatMap((pod) => [pod, pod]));
    }
  });

  it("ten for the same connection take one slot", async () => {
    const [first] = clients.stores;
    const slots = createSlots(first!, "c1//ws/");
    const request = { proxy: "p1", connection: "eager", app: "chat", pods: ["lone-pod"] };
    const answers = await Promise.all(Array.from({ length: 10 }, () => slots.acquire(request, limits)));
    expect(answers.map((answer) => answer.code).sort()).toEqual([...Array(9).fill("ALREADY_HELD"), "SUCCESS"]);
    expect((await slots.counts(["lone-pod"], limits.leaseMs)).perPod.get("lone-pod")).toBe(1);
  });
});
