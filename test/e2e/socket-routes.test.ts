/** Two routes to one pod, on two primaries of a Redis Cluster, through the gateway, nginx and Envoy at the same time. */
import { request } from "undici";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { createRouteSlots, type RouteSlots } from "../../src/slots/slots.js";
import { createRedisStore } from "../../src/store/redis/redis-store.js";
import { describeEnvoy } from "../support/envoy-binary.js";
import { startEnvoy } from "../support/envoy-process.js";
import { ADMIN_TOKEN, type GatewayProcess, startGateway } from "../support/gateway-process.js";
import { startNginx } from "../support/nginx-process.js";
import { type RedisCluster, startRedisCluster } from "../support/redis-cluster.js";
import { connectSocket, type Outcome, type SocketClient } from "../support/socket-clients.js";
import { type SocketPod, startSocketPod } from "../support/socket-pods.js";
import { pause, waitFor } from "../support/wait-for.js";

const LEASE_MS = 3_000;
/** With their placements, which are on different primaries. */
const PLACEMENTS = new Map([
  ["/a/", 0],
  ["/b/", 3],
]);
const LIMIT = 6;

const endings: (() => unknown)[] = [];
let cluster: RedisCluster;
let pod: SocketPod;
let service: GatewayProcess;
/** Of the gateway, nginx and Envoy. */
let planes: string[];
let slots: RouteSlots;
const clients: SocketClient[] = [];

describeEnvoy("two routes on three planes", () => {
  beforeAll(async () => {
    cluster = await startRedisCluster({ nodeTimeoutMs: 60_000 });
    endings.push(() => cluster.stop());
    pod = await startSocketPod(() => undefined);
    endings.push(() => pod.stop());
    const routes = [...PLACEMENTS].map(
      ([path, placement]) =>
        `{ path: ${path}, upstream: pods, connections: { max_per_pod: ${LIMIT}, max_total: ${LIMIT}, rate_per_second: 0, lease_s: 3, placement: ${placement} } }`,
    );
    const config = `store: ${cluster.url}
cluster: { id: routes }
apps: { default: { guaranteed: 1000000, burst: 1000000, on_store_failure: open } }
upstreams: { pods: { targets: ["${pod.address}"] } }
routes: [${routes.join(", ")}]
lease: { timeout_ms: 1000 }
log: { level: warn }
`;
    service = await startGateway(`node_id: service\nworkers: 1\n${config}`);
    endings.push(() => service.stop());
    const services = [service.controlUrl.replace("http://", "")];
    const nginx = await startNginx(config, { services, workers: 1, node: "nginx" });
    endings.push(() => nginx.stop());
    const envoy = await startEnvoy(config, { services, workers: 1, node: "envoy" });
    endings.push(() => envoy.stop());
    planes = [service.url, nginx.url, envoy.url];
    const store = createRedisStore({ url: cluster.url, deadlineMs: 5_000 });
    endings.push(() => store.close());
    slots = createRouteSlots(store, "routes", (route) => PLACEMENTS.get(route));
  });
  afterAll(async () => {
    for (const end of endings.splice(0).reverse()) await end();
  });
  afterEach(async () => {
    for (const { socket } of clients.splice(0)) socket.terminate();
    await waitFor("all slots to be free", async () => (await counted("/a/")) + (await counted("/b/")) === 0);
  });

  const counted = async (route: string) => (await slots.of(route).counts([], LEASE_MS)).total;

  /** This many connections at once on a route, through each of the planes. */
  async function connect(route: string, perPlane: number, through = planes): Promise<Outcome[]> {
    const some = through.flatMap((url) => Array.from({ length: perPlane }, () => connectSocket(`${url}${route}`)));
    clients.push(...some);
    return Promise.all(some.map(({ outcome }) => outcome));
  }
  const opened = (outcomes: Outcome[]) => outcomes.filter(({ open }) => open).length;

  it("each route has its own limit over all planes, also on the pod that they share", async () => {
    for (const route of PLACEMENTS.keys()) expect(opened(await connect(route, 5))).toBe(LIMIT);
    expect(pod.live.size).toBe(2 * LIMIT);
    await pause(1.5 * LEASE_MS);
    expect([await counted("/a/"), await counted("/b/"), pod.live.size]).toEqual([LIMIT, LIMIT, 2 * LIMIT]);
    const { body } = await request(`${service.controlUrl}/admin/ratelimit/connections`, {
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    expect(await body.json()).toMatchObject({
      total: 2 * LIMIT,
      routes: [...PLACEMENTS.keys()].map((route) => ({ route, connections: LIMIT, limit: LIMIT })),
      pods: [...PLACEMENTS.keys()].map((route) => ({ route, pod: pod.address, connections: LIMIT, limit: LIMIT })),
      unavailable: [],
    });
  });

  it("while the primary of one route hangs, the other keeps its slots and its limit on every plane", async () => {
    expect(opened(await connect("/a/", 1))).toBe(3);
    expect(opened(await connect("/b/", 1))).toBe(3);
    const primary = await cluster.primaryOf(`ws:{${slots.tagOf("/a/")}}:clock`);
    primary.pause();
    try {
      for (const outcome of await connect("/a/", 1)) expect(outcome).toMatchObject({ open: false, status: 503 });
      for (const plane of planes) expect(opened(await connect("/b/", 1, [plane]))).toBe(1);
      const { body } = await request(`${service.controlUrl}/admin/ratelimit/connections`, {
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
      });
      expect(await body.json()).toMatchObject({ total: 6, routes: [{ route: "/b/" }], unavailable: ["/a/"] });
      await pause(1.5 * LEASE_MS);
      expect(await counted("/b/")).toBe(LIMIT);
      for (const outcome of await connect("/b/", 1)) expect(outcome).toMatchObject({ open: false, status: 429 });
    } finally {
      primary.resume();
    }
    expect(pod.live.size).toBe(9);
    await waitFor("the open connections to be counted again", async () => (await counted("/a/")) === 3);
  });
});
