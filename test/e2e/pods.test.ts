/** Pods are added and removed while WebSockets are open, by configuration and by DNS. */

import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { request } from "undici";
import { afterEach, describe, expect, it } from "vitest";
import { ADMIN_TOKEN, type GatewayProcess, startGateway } from "../support/gateway-process.js";
import { startRedis } from "../support/redis-server.js";
import { slotMembers } from "../support/slot-keys.js";
import { connectSocket } from "../support/socket-clients.js";
import { startSocketFleet } from "../support/socket-gateways.js";
import { startSocketPod } from "../support/socket-pods.js";
import { waitFor } from "../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

function edit({ file }: GatewayProcess, change: (yaml: string) => string): void {
  writeFileSync(`${file}.new`, change(readFileSync(file, "utf8")));
  renameSync(`${file}.new`, file);
}

async function version({ controlUrl }: GatewayProcess): Promise<unknown> {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const { body } = await request(`${controlUrl}/admin/ratelimit/status`, { headers });
  return ((await body.json()) as Record<string, unknown>).config_version;
}

const connections = "max_per_pod: 2, max_total: 0, rate_per_second: 0, lease_s: 3";

describe("a pod that leaves the configuration", () => {
  it("gets no new connections, keeps its open ones counted, and starts empty when it is added again", async () => {
    const fleet = await startSocketFleet({ gateways: 1, pods: 2, connections, endings });
    const [gateway] = fleet.gateways as [GatewayProcess];
    const [staying, leaving] = fleet.pods as [(typeof fleet.pods)[number], (typeof fleet.pods)[number]];
    const counted = (address: string) => slotMembers(fleet.redis, `pod_conn:${address}`);
    const clients = Array.from({ length: 4 }, () => connectSocket(fleet.url(0)));
    await waitFor("two on each", () => fleet.pods.every(({ live }) => live.size === 2));

    const before = await version(gateway);
    edit(gateway, (yaml) => yaml.replace(`, "${leaving.address}"`, ""));
    await waitFor("the change", async () => (await version(gateway)) !== before);
    const [one] = [...leaving.live];
    one?.socket.terminate();
    await waitFor("room on the pod that left", async () => (await counted(leaving.address)) === 1);
    expect(await connectSocket(fleet.url(0)).outcome).toMatchObject({ open: false, status: 429 });
    expect(fleet.pods.map(({ live }) => live.size)).toEqual([2, 1]);
    expect(await counted(staying.address)).toBe(2);
    for (const { socket } of clients) socket.terminate();
    await waitFor(
      "all to have ended",
      async () => (await counted(leaving.address)) + (await counted(staying.address)) === 0,
    );

    edit(gateway, (yaml) => yaml.replace(`["${staying.address}"`, `["${staying.address}", "${leaving.address}"`));
    await waitFor("new connections on the pod that is back", async () => {
      const client = connectSocket(fleet.url(0));
      await client.outcome;
      return leaving.live.size === 2;
    });
  });
});

describe("pods behind a DNS name", () => {
  it("are resolved and counted individually", async () => {
    const redis = await startRedis();
    endings.push(() => redis.stop());
    const pod = await startSocketPod(() => undefined);
    endings.push(() => pod.stop());
    const port = pod.address.split(":")[1];
    const gateway = await startGateway(`
workers: 1
store: ${redis.url}
apps: { default: { guaranteed: 1000, burst: 1000 } }
upstreams: { sockets: { dns: { name: localhost, port: ${port}, interval_ms: 500 } } }
routes: [{ path: /ws/, upstream: sockets, connections: { ${connections} } }]
log: { level: warn }
`);
    endings.push(() => gateway.stop());
    const opened = await waitFor("two connections", async () => {
      await connectSocket(`${gateway.url}/ws/`).outcome;
      return pod.live.size === 2;
    });
    expect(opened).toBe(true);
    expect(await slotMembers(redis, `pod_conn:127.0.0.1:${port}`)).toBe(2);
    const third = await connectSocket(`${gateway.url}/ws/`).outcome;
    expect(third.open).toBe(false);
    expect(pod.live.size).toBe(2);
  });
});
