/** Connection limits over two nginx instances and a gateway; and the share of one nginx without the store. */

import { request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { type NginxProcess, startNginx } from "../../../support/nginx-process.js";
import { startAll } from "../../../support/processes.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { slotMembers } from "../../../support/slot-keys.js";
import { connectSocket, type Outcome, type SocketClient } from "../../../support/socket-clients.js";
import { type SocketPod, startSocketPod } from "../../../support/socket-pods.js";
import { waitFor } from "../../../support/wait-for.js";

const endings: (() => unknown)[] = [];
let redis: RedisServer;
let service: GatewayProcess;
let pods: SocketPod[];
let planes: NginxProcess[];

const routes = {
  total: "max_per_pod: 10, max_total: 5",
  app: "max_per_pod: 20, max_total: 0, max_per_app: 3",
  rate: "max_per_pod: 20, max_total: 0, rate_per_second: 0.01, burst: 4",
  "client-rate": "max_per_pod: 20, max_total: 0, rate_per_second: 0.01, burst: 8",
  local: "max_per_pod: 7, max_total: 0, on_store_failure: local",
  "local-total": "max_per_pod: 50, max_total: 10, on_store_failure: local",
  "local-app": "max_per_pod: 50, max_total: 0, max_per_app: 4, on_store_failure: local",
  open: "max_per_pod: 20, max_total: 0, on_store_failure: open",
  "open-most": "max_per_pod: 50, max_total: 0, on_store_failure: open, max_without_store: 3",
};

beforeAll(async () => {
  redis = await startRedis();
  endings.push(() => redis.stop());
  pods = await Promise.all([startSocketPod(() => undefined), startSocketPod(() => undefined)]);
  endings.push(() => Promise.all(pods.map((pod) => pod.stop())));
  const yaml = `
store: ${redis.url}
workers: 1
log: { level: warn }
lease: { timeout_ms: 2000 }
apps:
  default: { guaranteed: 100000, burst: 100000 }
  other: { guaranteed: 100000, burst: 100000 }
upstreams: { pods: { targets: [${pods.map(({ address }) => `"${address}"`).join(", ")}] } }
routes:
${Object.entries(routes)
  .map(
    ([path, limits]) =>
      `  - { path: /${path}/, upstream: pods, connections: { ${limits.includes("rate") ? "" : "rate_per_second: 0, "}lease_s: 600, ${limits} } }`,
  )
  .join("\n")}
`;
  service = await startGateway(`node_id: gateway\n${yaml}`);
  endings.push(() => service.stop());
  const services = [service.controlUrl.replace("http://", "")];
  planes = await startAll(["nginx-a", "nginx-b"].map((node) => startNginx(yaml, { services, workers: 2, node })));
  for (const nginx of planes) endings.push(() => nginx.stop());
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

const clients: SocketClient[] = [];
const onPods = () => pods.reduce((sum, { live }) => sum + live.size, 0);
const slotsTaken = () => slotMembers(redis, "global_conn");
afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.terminate();
  await waitFor("all slots to be free", async () => onPods() === 0 && (await slotsTaken()) === 0);
});

/** This many connections at once, distributed over the instances. */
async function connect(urls: string[], count: number, app = "default", address?: string): Promise<Outcome[]> {
  const headers = { "x-app-id": app, ...(address === undefined ? {} : { "x-forwarded-for": address }) };
  const some = Array.from({ length: count }, (_, i) => connectSocket(urls[i % urls.length]!, headers));
  clients.push(...some);
  return Promise.all(some.map(({ outcome }) => outcome));
}

const everywhere = (path: keyof typeof routes) =>
  [...planes.map(({ url }) => url), service.url].map((url) => `${url}/${path}/`);
const opened = (outcomes: Outcome[]) => outcomes.filter(({ open }) => open).length;
/** Each kind of refusal once. */
const refusals = (outcomes: Outcome[]) => [
  ...new Set(outcomes.flatMap((outcome) => (outcome.open ? [] : [`${outcome.status} ${outcome.reason}`]))),
];

describe("with the store", () => {
  it("max_total: applies over all pods and proxies; a slot that is released can be taken again", async () => {
    const outcomes = await connect(everywhere("total"), 15);
    expect([opened(outcomes), onPods()]).toEqual([5, 5]);
    expect(refusals(outcomes)).toEqual(["429 TOTAL_LIMIT_EXCEEDED"]);
    clients.find((_, i) => outcomes[i]!.open)!.socket.terminate();
    await waitFor("its slot to be free", async () => (await slotsTaken()) === 4);
    expect(opened(await connect(everywhere("total"), 6))).toBe(1);
    expect(onPods()).toBe(5);
  });

  it("max_per_app: applies to each app separately", async () => {
    const [one, other] = await Promise.all([
      connect(everywhere("app"), 9, "default"),
      connect(everywhere("app"), 9, "other"),
    ]);
    expect([opened(one), opened(other), onPods()]).toEqual([3, 3, 6]);
    expect(refusals([...one, ...other])).toEqual(["429 APP_LIMIT_EXCEEDED"]);
  });

  it("burst: this many at once, further ones get Retry-After", async () => {
    const outcomes = await connect(everywhere("rate"), 12);
    expect([opened(outcomes), onPods()]).toEqual([4, 4]);
    expect(refusals(outcomes)).toEqual(["429 RATE_LIMITED"]);
    // At 0.01 per second the next one may come after 100 s.
    for (const outcome of outcomes) if (!outcome.open) expect(outcome.retryAfter).toBeGreaterThan(300);
  });

  it("burst_per_client: a client that uses its share leaves the other new connections to others", async () => {
    const from = (address: string) => connect(everywhere("client-rate"), 9, "default", address);
    const hostile = await from("2001:db8::1");
    expect([opened(hostile), refusals(hostile)]).toEqual([4, ["429 CLIENT_RATE_LIMITED"]]);
    expect(opened(await from("2001:db8::2"))).toBe(0);
    expect(opened(await from("192.0.2.2"))).toBe(4);
    expect(refusals(await from("192.0.2.3"))).toEqual(["429 RATE_LIMITED"]);
  });
});

describe("without the store", () => {
  const knownNodes = async ({ statusUrl }: NginxProcess) => {
    const { body } = await request(`${statusUrl}/health/deep`);
    const { components } = (await body.json()) as { components: { service: { live_nodes: number } } };
    return components.service.live_nodes;
  };

  /** Redis is stopped and restarted: all admitted connections get slots, and none is dropped. */
  async function withoutStore(act: () => Promise<void>): Promise<void> {
    // After a restart with an empty Redis, all nodes must have reported first.
    await waitFor("each nginx to see three nodes", async () =>
      (await Promise.all(planes.map(knownNodes))).every((nodes) => nodes === 3),
    );
    await redis.kill();
    let held = 0;
    try {
      await act();
      held = onPods();
    } finally {
      await redis.restart();
    }
    await waitFor("slots for all connections", async () => (await slotsTaken()) === held);
    expect(onPods()).toBe(held);
  }

  const on = (path: keyof typeof routes) => planes.map(({ url }) => `${url}/${path}/`);

  it("local: with three nodes a third of the limit per pod, rounded down, for both workers together", async () => {
    await withoutStore(async () => {
      for (const url of on("local")) {
        const outcomes = await connect([url], 12);
        // 7 on each of two pods: 2 are this nginx's share of each.
        expect(opened(outcomes)).toBe(4);
        expect(refusals(outcomes)).toEqual(["503 store_unavailable"]);
      }
      expect(pods.map(({ live }) => live.size)).toEqual([4, 4]);
    });
  });

  it("local: a third of max_total and of max_per_app", async () => {
    await withoutStore(async () => {
      for (const url of on("local-app")) {
        const [one, other] = [await connect([url], 6, "default"), await connect([url], 6, "other")];
        expect([opened(one), opened(other)]).toEqual([1, 1]);
      }
      // 10 in all: 3 are its share. Connections of the other routes do not count.
      for (const url of on("local-total")) expect(opened(await connect([url], 6))).toBe(3);
    });
  });

  it("open: all are admitted, or max_without_store by both workers together", async () => {
    await withoutStore(async () => {
      for (const url of on("open")) expect(opened(await connect([url], 20))).toBe(20);
      for (const url of on("open-most")) {
        const outcomes = await connect([url], 10);
        expect(opened(outcomes)).toBe(3);
        expect(refusals(outcomes)).toEqual(["503 store_unavailable"]);
      }
    });
  });
});
