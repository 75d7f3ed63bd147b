/** WebSockets through nginx: killed workers, shutdown, unusual upgrades, silent pods, cost. */

import { createServer, type Server, type Socket } from "node:net";
import { request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createQuota, type Quota } from "../../../../src/quota/quota.js";
import { createRedisStore } from "../../../../src/store/redis/redis-store.js";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { openRaw } from "../../../support/http-client.js";
import { type NginxProcess, startNginx } from "../../../support/nginx-process.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { slotMembers } from "../../../support/slot-keys.js";
import { connectSocket } from "../../../support/socket-clients.js";
import { type SocketPod, startSocketPod } from "../../../support/socket-pods.js";
import { waitFor } from "../../../support/wait-for.js";
import { upgradeHead } from "../../../support/ws-backend.js";

const endings: (() => unknown)[] = [];
let redis: RedisServer;
let pod: SocketPod;
let silent: { address: string; callers: Set<Socket> };
let service: GatewayProcess;
let quota: Quota;
let yaml: string;

/** Accepts connections and does not answer. */
async function startSilentPod(): Promise<typeof silent> {
  const callers = new Set<Socket>();
  const server: Server = createServer((socket) => {
    callers.add(socket);
    socket.resume();
    socket.on("error", () => undefined).on("close", () => callers.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  endings.push(() => {
    for (const socket of callers) socket.destroy();
    server.close();
  });
  const address = server.address();
  return { address: `127.0.0.1:${typeof address === "object" ? address?.port : 0}`, callers };
}

beforeAll(async () => {
  redis = await startRedis();
  endings.push(() => redis.stop());
  pod = await startSocketPod(() => undefined);
  endings.push(() => pod.stop());
  silent = await startSilentPod();
  // Long leases: a slot that is free within seconds was released.
  const connections =
    "{ max_per_pod: 5, max_total: 0, rate_per_second: 0, lease_s: 600, protocols: [websocket, chat] }";
  yaml = `
store: ${redis.url}
cluster: { id: sockets }
workers: 1
log: { level: warn }
timeouts: { shutdown_ms: 300, response_ms: 1000 }
apps:
  metered: { guaranteed: 1, burst: 1000000, profile: { based_on: standard } }
  small: { guaranteed: 0.01, burst: 3, profile: { based_on: iops, bandwidth: 0 } }
upstreams:
  pods: { targets: ["${pod.address}"] }
  silent: { targets: ["${silent.address}"] }
  nobody: { targets: ["127.0.0.1:9"] }
routes:
  - { path: /ws/, upstream: pods, connections: ${connections} }
  - { path: /silent/, upstream: silent, connections: ${connections} }
  - { path: /nobody/, upstream: nobody, connections: ${connections} }
`;
  service = await startGateway(yaml);
  endings.push(() => service.stop());
  const store = createRedisStore(redis.url);
  endings.push(() => store.close());
  quota = createQuota(store, { id: "sockets", capacity: 1_000_000, rate: 500_000, nodeTtlMs: 30_000 });
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

let nodes = 0;
const started: NginxProcess[] = [];
afterEach(async () => {
  try {
    await waitFor("all slots to be free", async () => (await slotsTaken()) === 0);
  } finally {
    await Promise.all(started.splice(0).map((nginx) => nginx.stop()));
  }
});

async function start(workers = 1): Promise<NginxProcess> {
  const services = [service.controlUrl.replace("http://", "")];
  const nginx = await startNginx(yaml, { services, workers, node: `nginx-${++nodes}` });
  started.push(nginx);
  return nginx;
}

const slotsTaken = () => slotMembers(redis, "global_conn");

async function open(nginx: NginxProcess, count: number, headers: Record<string, string> = {}) {
  const clients = Array.from({ length: count }, () => connectSocket(`${nginx.url}/ws/`, headers));
  for (const { outcome } of clients) expect(await outcome).toMatchObject({ open: true });
  return clients;
}

it("slots of a killed worker are released by another at once, long before their leases expire", async () => {
  const nginx = await start(2);
  const clients = await open(nginx, 5);
  expect(await slotsTaken()).toBe(5);
  for (const pid of nginx.workers()) process.kill(pid, "SIGKILL");
  await waitFor("all slots to be free", async () => (await slotsTaken()) === 0);
  for (const { ended } of clients) await ended;
  await waitFor("the log line", () => nginx.log().includes("a worker died"));
  for (const { socket } of await open(nginx, 5)) socket.terminate();
});

it("after the store lost its state no worker exceeds the limit, not even one without connections", async () => {
  const nginx = await start();
  const idle = await start();
  await open(nginx, 5);
  await redis.command("FLUSHALL");
  const outcomes = await Promise.all(Array.from({ length: 5 }, () => connectSocket(`${idle.url}/ws/`).outcome));
  expect(outcomes.map((outcome) => !outcome.open && outcome.status)).toEqual(Array(5).fill(503));
  // Open connections are renewed before a new one is admitted.
  await waitFor("slots for all connections", async () => (await slotsTaken()) === 5);
  const late = await waitFor("a refusal by the store", async () => {
    const outcome = await connectSocket(`${idle.url}/ws/`).outcome;
    return !outcome.open && outcome.status !== 503 && outcome;
  });
  expect(late).toMatchObject({ status: 429, reason: "LIMIT_EXCEEDED" });
  expect(pod.live.size).toBe(5);
  for (const { socket } of pod.live) socket.terminate();
});

it("an nginx that quits closes its connections after its shutdown timeout, and releases their slots", async () => {
  const nginx = await start(2);
  const [client] = await open(nginx, 1);
  await nginx.reload();
  const [second] = await open(nginx, 1);
  await nginx.quit();
  expect([(await client!.ended).code, (await second!.ended).code]).toEqual([1006, 1006]);
  expect(await slotsTaken()).toBe(0);
});

it("an upgrade is charged at once, and its bytes when it has ended", async () => {
  const nginx = await start();
  const [client] = await open(nginx, 1, { "x-app-id": "metered" });
  const bytes = 1_048_576;
  const received = new Promise((resolve) => client!.socket.once("message", resolve));
  client!.socket.send(Buffer.alloc(bytes));
  await received;
  client!.socket.close();
  // In both directions: 64 KiB cost a token.
  const spent = await waitFor("the bytes to be charged", async () => {
    const node = (await quota.nodes()).find((each) => each.node.startsWith(`nginx-${nodes}@`));
    const { apps } = await quota.ledger(node!.node);
    const metered = apps.find(({ app }) => app === "metered");
    return metered !== undefined && metered.spent > 10 && metered.spent;
  });
  expect(spent).toBeGreaterThanOrEqual((2 * bytes) / 65_536);
  expect(spent).toBeLessThanOrEqual((2 * bytes) / 65_536 + 4);
});

it("a client over its rate limit gets no slot", async () => {
  const nginx = await start();
  let opened = 0;
  // While the service is slow, the reason is store_unavailable.
  const refusal = await waitFor("a refusal for want of tokens", async () => {
    const client = connectSocket(`${nginx.url}/ws/`, { "x-app-id": "small" });
    const outcome = await client.outcome;
    client.socket.terminate();
    if (outcome.open) opened++;
    return !outcome.open && outcome.reason === "quota_exhausted" && outcome;
  });
  expect(refusal).toMatchObject({ status: 429 });
  expect(opened).toBeLessThanOrEqual(3);
});

describe("failing pods", () => {
  it("a pod that does not answer: the client is disconnected after response_ms, and the slot is released", async () => {
    const nginx = await start();
    const client = connectSocket(`${nginx.url}/silent/`);
    await waitFor("the connection to the pod", () => silent.callers.size === 1);
    expect(await slotsTaken()).toBe(1);
    expect(await client.outcome).toMatchObject({ open: false });
    await waitFor("the pod to be disconnected", () => silent.callers.size === 0);
  });

  it("an unreachable pod: 502 like the gateway, no slot is held, and requests are sent once", async () => {
    const nginx = await start();
    const outcome = await connectSocket(`${nginx.url}/nobody/`).outcome;
    expect(outcome).toMatchObject({ open: false, status: 502, reason: "upstream_unreachable" });
    expect((await request(`${nginx.url}/nobody/`, { method: "POST", body: "x" })).statusCode).toBe(502);
  });
});

it("nginx accepts and refuses the same upgrades as the gateway", async () => {
  const nginx = await start();
  const ask = async (head: string) => {
    const client = await openRaw(nginx.port);
    client.write(head);
    const answer = await client.until((text) => /\r\n\r\n$|\}\n$|a pod$/.test(text));
    client.socket.destroy();
    return `${/^HTTP\/1.1 (\d+)/.exec(answer)?.[1]} ${/"reason":"(\w+)"/.exec(answer)?.[1] ?? ""}`.trim();
  };
  const path = "/ws/?client=odd";
  const close = "Connection: close\r\n";
  const answers = {
    other: await ask(upgradeHead({ path, protocol: "gopher" })),
    head: await ask(upgradeHead({ path, method: "HEAD" })),
    body: await ask(upgradeHead({ path, more: "Content-Length: 3\r\n" })),
    h2c: await ask(`GET ${path} HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n${close}\r\n`),
    plain: await ask(`GET ${path} HTTP/1.1\r\nHost: a\r\n${close}\r\n`),
  };
  expect(answers).toEqual({
    other: "501 unsupported_upgrade",
    head: "501",
    body: "400 malformed_request",
    h2c: "200",
    plain: "200",
  });
  expect(await slotsTaken()).toBe(0);
});
