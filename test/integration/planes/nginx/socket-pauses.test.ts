/** An nginx worker that is paused for longer than its leases: its slots expire, and it does not reclaim slots that others have taken. */

import { request } from "undici";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { readPage } from "../../../support/metrics-page.js";
import { type NginxProcess, startNginx } from "../../../support/nginx-process.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { slotMembers } from "../../../support/slot-keys.js";
import { connectSocket, type SocketClient } from "../../../support/socket-clients.js";
import { type SocketPod, startSocketPod } from "../../../support/socket-pods.js";
import { waitFor } from "../../../support/wait-for.js";

const MOST = 2;
const endings: (() => unknown)[] = [];
let redis: RedisServer;
let pod: SocketPod;
let service: GatewayProcess;
let paused: NginxProcess;
let other: NginxProcess;

beforeAll(async () => {
  redis = await startRedis();
  endings.push(() => redis.stop());
  pod = await startSocketPod(() => undefined);
  endings.push(() => pod.stop());
  const yaml = `
store: ${redis.url}
workers: 1
log: { level: warn }
lease: { timeout_ms: 2000 }
apps: { default: { guaranteed: 100000, burst: 100000 } }
upstreams: { pods: { targets: ["${pod.address}"] } }
routes:
  - { path: /ws/, upstream: pods, connections: { max_per_pod: ${MOST}, rate_per_second: 0, lease_s: 2 } }
`;
  service = await startGateway(yaml);
  endings.push(() => service.stop());
  const services = [service.controlUrl.replace("http://", "")];
  const start = (node: string) => startNginx(yaml, { services, workers: 1, node });
  [paused, other] = await Promise.all([start("paused"), start("other")]);
  endings.push(() => Promise.all([paused.stop(), other.stop()]));
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

const clients: SocketClient[] = [];
afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.terminate();
  await waitFor("the pod to have no connections", () => pod.live.size === 0);
});

/** Opens this many connections, with retries. */
async function open(nginx: NginxProcess, count: number): Promise<SocketClient[]> {
  const some: SocketClient[] = [];
  await waitFor(`${count} to be open`, async () => {
    const client = connectSocket(`${nginx.url}/ws/`);
    clients.push(client);
    if ((await client.outcome).open) some.push(client);
    return some.length === count;
  });
  return some;
}

async function numbersOf({ statusUrl }: NginxProcess) {
  const page = readPage(await (await request(`${statusUrl}/metrics`)).body.text());
  return {
    active: page.value("websocket_connections_active_total"),
    lost: page.value("websocket_leases_lost_total"),
    reclaimed: page.value("websocket_leases_reclaimed_total"),
  };
}

const isOpen = ({ socket }: SocketClient) => socket.readyState === socket.OPEN;

it("after a pause, nginx closes connections whose slots others have taken, and reclaims the rest", async () => {
  const held = await open(paused, MOST);
  const [worker] = paused.workers();
  process.kill(worker!, "SIGSTOP");
  // Both leases have expired. One slot is free again, so one of the two paused connections can be reclaimed.
  const [taken, leaving] = await open(other, MOST);
  leaving!.socket.terminate();
  await waitFor("its slot to be free", async () => (await slotMembers(redis, "global_conn")) === 1);
  process.kill(worker!, "SIGCONT");
  await waitFor("one paused connection to be closed", () => held.filter(isOpen).length === MOST - 1);
  await waitFor("the metrics", async () => {
    expect(await numbersOf(paused)).toEqual({ active: MOST - 1, lost: MOST, reclaimed: MOST - 1 });
    return true;
  });
  expect(paused.log()).toContain("a connection lost its slot and is closed");
  expect([isOpen(taken!), pod.live.size]).toEqual([true, MOST]);
  const refused = connectSocket(`${other.url}/ws/`);
  expect(await refused.outcome).toMatchObject({ open: false, status: 429, reason: "LIMIT_EXCEEDED" });
  expect(await numbersOf(other)).toMatchObject({ active: 1, lost: 0, reclaimed: 0 });
});
