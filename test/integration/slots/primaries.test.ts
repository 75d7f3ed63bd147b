/** Routes on different primaries of a real Redis Cluster: a primary that fails affects only its own routes. */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import type { ConnectionVerdict } from "../../../src/slots/connection-admission.js";
import { createRouteSlots, type RouteSlots } from "../../../src/slots/slots.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import type { Store } from "../../../src/store/store.js";
import { type RedisCluster, startRedisCluster } from "../../support/redis-cluster.js";
import { waitFor } from "../../support/wait-for.js";
import { CLUSTER, type Gateway, limits, startGateway } from "./gateways.js";

const ROUTES = Array.from({ length: 20 }, (_, i) => `/chat-${i}/`);
const placementOf = (route: string) => ROUTES.indexOf(route);
/** On different primaries, by their placements. */
const [A, B] = [ROUTES[0]!, ROUTES[3]!];
const PODS = ["pod-1"];
const LEASE_MS = 3_000;
const route = limits({ maxPerPod: 10, maxTotal: 10, leaseMs: LEASE_MS });
const reasonOf = (verdict: ConnectionVerdict) => JSON.parse(verdict.allowed ? "{}" : verdict.body).reason;

let cluster: RedisCluster;
let beside: Store;
let slots: RouteSlots;
let gateways: Gateway[] = [];

beforeAll(async () => {
  cluster = await startRedisCluster({ nodeTimeoutMs: 5_000 });
  beside = createRedisStore({ url: cluster.url, deadlineMs: 5_000 });
  slots = createRouteSlots(beside, CLUSTER, placementOf);
});
afterAll(async () => {
  await beside?.close();
  await cluster?.stop();
});
afterEach(async () => {
  await Promise.all(gateways.map((gateway) => gateway.stop()));
  gateways = [];
});

function startTwo(): [Gateway, Gateway] {
  const routes = new Map(ROUTES.map((name) => [name, route]));
  const both = [1, 2].map(() => startGateway(cluster.url, route, { routes, timeoutMs: 1_000 }, placementOf));
  gateways.push(...both);
  return both as [Gateway, Gateway];
}

const keyOf = (name: string) => `ws:{${slots.tagOf(name)}}:clock`;
const total = async (name: string) => (await slots.of(name).counts([], LEASE_MS)).total;
const openOn = async (one: Gateway, name: string, count: number) => {
  for (let i = 0; i < count; i++) expect((await one.connect(PODS, "chat", name)).allowed).toBe(true);
};

it("20 routes with placements are spread over three primaries, and each limit is exact over two gateways", async () => {
  const both = startTwo();
  const perPrimary = new Map<string, number>();
  for (const name of ROUTES) {
    const attempts = Array.from({ length: 14 }, (_, i) => both[i % 2]!.connect(PODS, "chat", name));
    const verdicts = await Promise.all(attempts);
    expect(verdicts.filter(({ allowed }) => allowed).length).toBe(10);
    const { id } = await cluster.primaryOf(keyOf(name));
    perPrimary.set(id, (perPrimary.get(id) ?? 0) + 1);
  }
  expect(perPrimary.size).toBe(3);
  expect(Math.max(...perPrimary.values())).toBeLessThanOrEqual((1.3 * 20) / 3);
  for (const gateway of both) gateway.endAll();
  await waitFor("all slots to be free", async () =>
    (await Promise.all(ROUTES.map(total))).every((count) => count === 0),
  );
});

it("a primary that hangs: its routes get 503 and keep their connections, others neither wait nor lose a lease", async () => {
  const [first, second] = startTwo();
  await openOn(first, A, 4);
  await openOn(first, B, 4);
  await openOn(second, B, 4);
  const primary = await cluster.primaryOf(keyOf(A));
  expect((await cluster.primaryOf(keyOf(B))).id).not.toBe(primary.id);
  primary.pause();
  try {
    expect(reasonOf(await first.connect(PODS, "chat", A))).toBe("store_unavailable");
    const until = performance.now() + 1.3 * LEASE_MS;
    while (performance.now() < until) {
      expect(await total(B)).toBe(8);
      const verdict = await second.connect(PODS, "chat", B);
      expect(reasonOf(verdict)).toBe(undefined);
      if (verdict.allowed) second.end(verdict.slot.connection);
      await waitFor("its slot to be free", async () => (await total(B)) === 8);
    }
  } finally {
    primary.resume();
  }
  await waitFor("the connections on the hanging primary to be counted", async () => (await total(A)) === 4);
  expect([first.closed, second.closed]).toEqual([[], []]);
});

it("a primary that is killed: after the failover its connections are counted again, never above the limit", async () => {
  const [first, second] = startTwo();
  await openOn(first, A, 5);
  await openOn(second, A, 5);
  await openOn(second, B, 5);
  const lostOnB = new Set<string>();
  const killed = cluster.killPrimaryOf(keyOf(A));
  let done = false;
  void killed.finally(() => {
    done = true;
  });
  while (!done) {
    const verdict = await second.connect(PODS, "chat", B);
    if (verdict.allowed) second.end(verdict.slot.connection);
    else lostOnB.add(reasonOf(verdict));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await killed;
  expect([...lostOnB]).toEqual([]);
  await waitFor("all connections to have slots", async () => (await total(A)) === 10 && (await total(B)) === 5);
  await waitFor("new connections to be refused by the limit", async () => {
    const verdict = await first.connect(PODS, "chat", A);
    expect(verdict.allowed).toBe(false);
    return reasonOf(verdict) === "LIMIT_EXCEEDED";
  });
  expect([first.open.size, second.open.size]).toEqual([5, 10]);
});
