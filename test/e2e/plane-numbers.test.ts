/** Requests through nginx and Envoy in what operators see: status, apps and the nodes of the dashboard. */
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ADMIN_TOKEN } from "../support/gateway-process.js";
import { type Backend, startBackend } from "../support/http-backend.js";
import { type PlaneKind, preparePlane, startPlane } from "../support/planes.js";
import { type RedisServer, startRedis } from "../support/redis-server.js";
import { waitFor } from "../support/wait-for.js";

const kinds: PlaneKind[] = ["nginx", "envoy"];
let redis: RedisServer;
let backend: Backend;
beforeAll(async () => {
  for (const kind of kinds) preparePlane(kind);
  [redis, backend] = await Promise.all([startRedis(), startBackend((_, response) => response.end("ok"))]);
});
afterAll(() => Promise.all([redis.stop(), backend.stop()]));

const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
async function read(url: string): Promise<Record<string, unknown>> {
  const { body } = await request(url, { headers });
  return (await body.json()) as Record<string, unknown>;
}

it.each(kinds)("status, apps and nodes count the requests through %s exactly", async (kind) => {
  const plane = await startPlane(kind, {
    ...{ instances: 1, workers: 1, store: redis.url, backend: backend.target },
    yaml: `cluster: { id: ${kind} }\nidentity: { trusted_hops: [127.0.0.0/8] }\napps: { small: { guaranteed: 0.001, burst: 12 }, other: { guaranteed: 1000, burst: 1000 } }\n`,
  });
  try {
    async function statusOf(app: string): Promise<number> {
      const { statusCode, body } = await request(`${plane.instances[0]!.url}/x`, { headers: { "x-app-id": app } });
      await body.dump();
      return statusCode;
    }
    const statuses: number[] = [];
    for (let i = 0; i < 40; i++) statuses.push(await statusOf("small"));
    const refused = statuses.filter((status) => status === 429).length;
    expect(refused).toBeGreaterThan(20);
    const admin = `${plane.controlUrl}/admin/ratelimit`;
    await waitFor("all requests to be counted", async () => {
      // Envoy has no timers: it reports its counters while it has requests.
      await statusOf("other");
      const { apps } = (await read(`${admin}/apps?search=small`)) as { apps: { requests: number }[] };
      return apps[0]!.requests >= 40;
    });
    expect(await read(`${admin}/apps/small`)).toMatchObject({
      statistics: { requests: 40, rejected: refused, refusals: { quota_exhausted: refused } },
    });
    expect(await read(`${admin}/status`)).toMatchObject({ statistics: { rejected_requests: refused } });
    const { body } = await request(`${plane.controlUrl}/dashboard/events?view=nodes`, { headers });
    let text = "";
    for await (const chunk of body) {
      text += String(chunk);
      if (/event: state\ndata: .*\n\n/.test(text)) break;
    }
    const state = JSON.parse(/event: state\ndata: (.*)\n\n/.exec(text)![1]!) as { nodes: { nodes: object[] } };
    expect(state.nodes.nodes).toContainEqual(expect.objectContaining({ kind, alive: true, level: expect.any(Number) }));
  } finally {
    await plane.stop();
  }
});
