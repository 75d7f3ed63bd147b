/** A data plane with credentials that tries to fill the store or the service: its budget ends, and other planes are served. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { readPage } from "../../../support/metrics-page.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";

const [HOSTILE, HONEST, COMMON] = ["the-token-of-edge-1-0123", "the-token-of-edge-2-0123", "a-plane-token-0123456"];
const NODES = 10;
const BYTES = 200_000;
const ROUTES = ["/ws/", "/ws2/", "/ws3/"];

let redis: RedisServer;
let service: GatewayProcess;
beforeAll(async () => {
  redis = await startRedis();
  const yaml = `
store: ${redis.url}
workers: 1
log: { level: warn }
cluster: { id: budgets }
lease: { timeout_ms: 10000 }
apps: { shop: { guaranteed: 1000, burst: 1000 } }
upstreams: { pods: { targets: ["10.0.0.1:80", "10.0.0.2:80"] } }
routes: [${ROUTES.map((path) => `{ path: ${path}, upstream: pods, connections: { max_per_pod: 5, max_total: 0, rate_per_second: 0 } }`).join(", ")}]
`;
  const limits = `plane_limits: { nodes: ${NODES}, bytes_per_second: ${BYTES} }`;
  const control = `admin_token: an-admin-token-0123456, plane_token: ${COMMON}, planes: { edge-1: ${HOSTILE}, edge-2: ${HONEST} }, ${limits}`;
  service = await startGateway(yaml, { control });
});
afterAll(async () => {
  await service?.stop();
  await redis?.stop();
});

async function post(token: string, path: string, body: unknown) {
  const text = typeof body === "string";
  const response = await fetch(`${service.controlUrl}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": text ? "text/plain" : "application/json" },
    body: text ? body : JSON.stringify(body),
  });
  const reply = await response.text();
  return { status: response.status, reply };
}

const sync = (token: string, node: string, epoch: number, more: object = {}) =>
  post(token, "/v1/sync", {
    ...{ node, epoch, seq: 1 },
    apps: [{ app: "shop", granted: 0, spent: 0, returned: 0, need: 1, want: 1 }],
    ...more,
  });
let honestSeq = 0;
const syncHonest = () => sync(HONEST, "edge-2", 1, { seq: ++honestSeq });
const keys = async (pattern: string) => (await redis.command("KEYS", pattern)) as string[];
const ledgersOf = async (plane: string) => (await keys(`ratelimit:*:ledger:${plane}*`)).length;

it("nodes and epochs that change with each message: the store has ledgers for those within the budget, and a node in use stays", async () => {
  const statuses: number[] = [];
  for (let i = 0; i < 50; i++) {
    statuses.push((await sync(HOSTILE, `edge-1-${i}`, 1)).status);
    statuses.push((await sync(HOSTILE, "edge-1", i + 1)).status);
    statuses.push((await sync(HOSTILE, `edge-1.${i}`, 1, { leave: true })).status);
  }
  expect(statuses.filter((status) => status === 200).length).toBe(NODES);
  expect(new Set(statuses)).toEqual(new Set([200, 429]));
  expect(await ledgersOf("edge-1")).toBe(NODES);
  const { status, reply } = await sync(HOSTILE, "edge-1-99", 1);
  expect([status, JSON.parse(reply)]).toEqual([
    429,
    {
      error: "too_many_requests",
      reason: "plane_budget",
      detail: "the data plane edge-1 uses too many nodes or epochs",
    },
  ]);
  expect((await sync(HOSTILE, "edge-1-0", 1, { seq: 2 })).status).toBe(200);
  // The worker of the service is a node, too. New nodes count more until the service has looked whose they are.
  await waitFor("the honest plane's part of a limit", async () => {
    const honest = JSON.parse((await syncHonest()).reply) as { code: string; live_nodes: number };
    expect(honest.code).toBe("ok");
    return honest.live_nodes <= NODES + 2;
  });
  const page = readPage(await (await fetch(`${service.controlUrl}/metrics`)).text());
  expect(page.sum("ratelimit_plane_budget_refusals_total", { budget: "nodes" })).toBe(150 - NODES + 1);
  expect(service.output().split("a data plane exceeds its budget").length).toBe(2);
});

it("planes with the common token have one budget together", async () => {
  let admitted = 0;
  for (let i = 0; i < 60; i++) if ((await sync(COMMON, `nginx-${i}`, 1)).status === 200) admitted++;
  expect(admitted).toBe(4 * NODES);
  expect((await syncHonest()).status).toBe(200);
});

const connections = (route?: string) => ({
  proxy: "edge-1",
  connections: Array.from({ length: 20 }, (_, i) => ({
    ...{ connection: `c${i}`, pod: `10.9.0.${i}:80`, app: `app-${i}`, client: `10.8.0.${i}` },
    ...(route === undefined ? {} : { route }),
  })),
});

it("a connection without a route counts on every route", async () => {
  const many = Array.from({ length: 10_000 }, (_, i) => ({ connection: `x${i}`, pod: "10.0.0.1:80" }));
  const { status, reply } = await post(HOSTILE, "/v1/connections/release", { proxy: "edge-1", connections: many });
  expect([status, reply]).toEqual([429, expect.stringContaining("names too many connections")]);
});

it("routes that are not configured: 400, and nothing is written", async () => {
  const before = (await keys("ws:*")).sort();
  for (let i = 0; i < 20; i++) {
    const route = `/invented/${i}/`;
    const acquire = { proxy: "edge-1", connection: "c", pods: ["10.0.0.1:80"], route };
    const messages: [path: string, body: unknown][] = [
      ["/v1/connections/renew", { proxy: "edge-1", route }],
      ["/v1/connections/renew", connections(route)],
      ["/v1/connections/renew", `edge-1 ${route}\nc 10.0.0.1:80`],
      ["/v1/connections/renew", `edge-1\nc 10.0.0.1:80 shop ${route}`],
      ["/v1/connections/release", connections(route)],
      ["/v1/connections/acquire", acquire],
      ["/redis/atomic", { operation: "renew", key: `ws:{budgets${route}}:pod_conn:x`, args: ["edge-1", "c"] }],
    ];
    for (const [path, body] of messages) {
      const { status, reply } = await post(HOSTILE, path, body);
      expect([path, status, reply]).toEqual([path, 400, expect.stringContaining("route")]);
    }
  }
  expect((await keys("ws:*")).sort()).toEqual(before);
});

it("pods that are no targets: 400, or left out where a target is named as well; no key is written for them", async () => {
  const acquire = (more: object) =>
    post(HOSTILE, "/v1/connections/acquire", { proxy: "edge-1", connection: "p", ...more });
  for (const more of [{ pods: ["10.9.9.9:80"] }, { pod: "10.0.0.1:81" }]) {
    expect(await acquire(more)).toMatchObject({ status: 400, reply: expect.stringContaining("target of the route") });
  }
  const atomic = { operation: "acquire", key: "ws:pod_conn:10.9.9.9:80", args: [5, "c", "edge-1"] };
  expect((await post(HOSTILE, "/redis/atomic", atomic)).status).toBe(400);
  const { reply } = await acquire({ pods: ["10.9.9.9:80", "10.0.0.2:80"] });
  expect(JSON.parse(reply)).toMatchObject({ allowed: true, pod: "10.0.0.2:80" });
  // It exists on a pod that is gone: the plane has to close it.
  const lost = await acquire({ connection: "q", pods: ["10.9.9.9:80"], reclaim: true });
  expect(JSON.parse(lost.reply)).toMatchObject({ allowed: false, code: "no_pod" });
  expect(await keys("ws:*10.9.*")).toEqual([]);
});

it("renewing and releasing what was never acquired adds no key, and all keys expire", async () => {
  const own = { proxy: "edge-1", connection: "r", pods: ["10.0.0.1:80"], client: "2001:db8::1" };
  expect((await post(HOSTILE, "/v1/connections/acquire", own)).status).toBe(200);
  await post(HOSTILE, "/v1/connections/renew", { proxy: "edge-1" });
  const before = (await keys("ws:*")).sort();
  const { reply } = await post(HOSTILE, "/v1/connections/renew", connections());
  expect(JSON.parse(reply)).toMatchObject({ renewed: 0, lost: connections().connections.map((one) => one.connection) });
  // The own connection, under other apps and clients.
  for (let i = 0; i < 20; i++) {
    const renamed = [{ connection: "r", pod: "10.0.0.1:80", app: `app-${i}`, client: `10.7.0.${i}` }];
    await post(HOSTILE, "/v1/connections/renew", { proxy: "edge-1", connections: renamed });
  }
  await post(HOSTILE, "/v1/connections/release", connections());
  const after = (await keys("ws:*")).sort();
  expect(after.filter((key) => !before.includes(key) && !key.endsWith(":released"))).toEqual([]);
  expect(after.some((key) => key.endsWith(":client_conn:2001:db8::"))).toBe(true);
  for (const key of after) expect([key, Number(await redis.command("PTTL", key)) > 0]).toEqual([key, true]);
});

it("proxies that change with each message are bounded", async () => {
  const statuses: number[] = [];
  for (let i = 0; i < 12 * NODES; i++) {
    statuses.push((await post(HOSTILE, "/v1/connections/renew", { proxy: `edge-1-p${i}` })).status);
  }
  // One proxy is known from the tests before.
  expect(statuses.filter((status) => status === 200).length).toBe(8 * NODES - 1);
  expect((await keys("ws:*:proxy:edge-1*")).length).toBeLessThanOrEqual(ROUTES.length * 8 * NODES);
  expect((await post(HONEST, "/v1/connections/renew", { proxy: "edge-2" })).status).toBe(200);
});

it("bytes: messages beyond the budget are not read, and another plane is served", async () => {
  const large = `edge-1 1 3\n${"#node a=1\n".repeat(20_000)}`;
  const replies = await Promise.all(Array.from({ length: 40 }, () => post(HOSTILE, "/v1/sync", large)));
  const refused = replies.filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThan(0);
  for (const { reply } of refused) expect(reply).toContain("sends too many bytes per second");
  expect((await syncHonest()).status).toBe(200);
});
