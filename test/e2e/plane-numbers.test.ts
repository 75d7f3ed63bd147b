/** Requests through nginx and Envoy in what operators see: status, apps and the nodes of the dashboard. */
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { runCommandLine } from "../../src/cli/command-line.js";
import { ADMIN_TOKEN } from "../support/gateway-process.js";
import { type Backend, startBackend } from "../support/http-backend.js";
import { readPage } from "../support/metrics-page.js";
import { type PlaneKind, type PlaneUnderTest, preparePlane, startPlane } from "../support/planes.js";
import { type RedisServer, startRedis } from "../support/redis-server.js";
import { waitFor } from "../support/wait-for.js";

const kinds: PlaneKind[] = ["nginx", "envoy"];
let redis: RedisServer;
let backend: Backend;
process.env.TOLLGATE_ADMIN_TOKEN = ADMIN_TOKEN;
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

async function look({ controlUrl }: PlaneUnderTest, line: string): Promise<string> {
  return (await runCommandLine([...line.split(" "), "--url", controlUrl, "--timeout", "30s"])).text;
}

it.each(kinds)("status, apps and nodes count the requests through %s exactly", async (kind) => {
  const plane = await startPlane(kind, {
    ...{ instances: 1, workers: 1, store: redis.url, backend: backend.target },
    // However busy the machine is, decisions are made by the limits.
    yaml: `cluster: { id: ${kind} }\nlease: { timeout_ms: 10000 }\nidentity: { trusted_hops: [127.0.0.0/8] }\napps: { first: { guaranteed: 0.001, burst: 2 }, small: { guaranteed: 0.001, burst: 12 }, other: { guaranteed: 1000, burst: 1000 } }\nlimits: [{ name: once-a-day, key: [app], rate: 1/day, match: { path: [/once] } }]\n`,
  });
  try {
    const pinned = JSON.stringify({ level: 0, duration_seconds: 3_600 });
    const pin = await request(`${plane.controlUrl}/admin/ratelimit/degradation`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: pinned,
    });
    await pin.body.dump();
    async function statusOf(app: string, path = "/x"): Promise<number> {
      const { statusCode, body } = await request(plane.instances[0]!.url + path, { headers: { "x-app-id": app } });
      await body.dump();
      return statusCode;
    }
    // A 429 needs a reply of the store: with it, the plane got the pinned level.
    let refusedBefore = 0;
    await waitFor("the pinned level to arrive", async () => {
      const status = await statusOf("first");
      if (status !== 200) refusedBefore++;
      return status === 429;
    });
    const startedAt = Date.now();
    const statuses: number[] = [];
    for (let i = 0; i < 40; i++) statuses.push(await statusOf("small"));
    const refused = statuses.filter((status) => status === 429).length;
    expect(refused).toBeGreaterThan(20);
    const admin = `${plane.controlUrl}/admin/ratelimit`;
    await waitFor("all requests to be counted", async () => {
      const { apps } = (await read(`${admin}/apps?search=small`)) as { apps: { requests: number }[] };
      return apps[0]!.requests >= 40;
    });
    expect(await read(`${admin}/apps/small`)).toMatchObject({
      statistics: { requests: 40, rejected: refused, refusals: { quota_exhausted: refused } },
    });
    expect(await read(`${admin}/status`)).toMatchObject({ statistics: { rejected_requests: refusedBefore + refused } });
    const refusal = {
      ...{ code: "quota_exhausted", layer: "L2", method: "GET", cost: expect.any(Number), limit: 12, dry_run: false },
      node_id: expect.stringContaining(kind),
      explanation: expect.stringMatching(/^small has used its burst of 12 tokens/),
    };
    const listed = (await read(`${admin}/apps?search=small`)) as { apps: { last_refusal: { timestamp: string } }[] };
    expect(listed.apps[0]!.last_refusal).toMatchObject(refusal);
    const age = Date.now() - Date.parse(listed.apps[0]!.last_refusal.timestamp);
    expect(age).toBeGreaterThanOrEqual(0);
    expect(age).toBeLessThan(Date.now() - startedAt);
    const one = (await read(`${admin}/apps/small`)) as { why: string; last_refusals: object[] };
    expect(one.last_refusals[0]).toMatchObject(refusal);
    // The rest is counted only.
    expect(one.last_refusals.length).toBeLessThanOrEqual(20);
    expect(one.why).toMatch(/has used its burst|has [0-9]+ tokens?/);
    expect(await look(plane, "status")).toMatch(/^small .* quota_exhausted, /m);
    expect(await look(plane, "apps")).toMatch(new RegExp(`^small +40 +${refused} .* quota_exhausted, `, "m"));
    const why = await look(plane, "why small");
    expect(why).toMatch(new RegExp(`^40 requests counted by this service, ${refused} refused`, "m"));
    expect(why).toMatch(new RegExp(`quota_exhausted {2}L2 {2}GET for \\d+, .*${kind}`));
    const once = await Promise.all([statusOf("other", "/once"), statusOf("other", "/once")]);
    expect(once.toSorted()).toEqual([200, 429]);
    await waitFor("the refusal to be explained by its limit", async () => {
      return /A request of other was refused by the limit once-a-day/.test(await look(plane, "why other"));
    });
    const other = (await read(`${admin}/apps/other`)) as { last_refusals: object[] };
    const ofLimit = { limit_name: "once-a-day", code: "quota_exhausted", cost: 1, balance: 0, remaining: 0, limit: 1 };
    expect(other.last_refusals[0]).toMatchObject(ofLimit);
    const metrics = await request(`${plane.controlUrl}/metrics`);
    const page = readPage(await metrics.body.text());
    const measured = page.sum("ratelimit_check_latency_seconds_count", { app_id: "small" });
    expect(measured).toBeGreaterThan(0);
    expect(measured).toBeLessThanOrEqual(40);
    // The first request of an app waits for its tokens, and a cached refusal for nothing.
    expect(page.sum("ratelimit_check_latency_seconds_sum", { source: "remote" })).toBeGreaterThan(0.000_1);
    expect(page.sum("ratelimit_check_latency_seconds_sum", { source: "local" })).toBeGreaterThan(0);
    const { body } = await request(`${plane.controlUrl}/dashboard/events?view=nodes`, { headers });
    let text = "";
    for await (const chunk of body) {
      text += String(chunk);
      if (/event: state\ndata: .*\n\n/.test(text)) break;
    }
    const state = JSON.parse(/event: state\ndata: (.*)\n\n/.exec(text)![1]!) as {
      nodes: { nodes: object[] };
      overview: { recent_refusals: object[] };
    };
    expect(state.overview.recent_refusals).toContainEqual(
      expect.objectContaining({ app_id: "small", code: "quota_exhausted", node_id: expect.stringContaining(kind) }),
    );
    expect(state.nodes.nodes).toContainEqual(
      expect.objectContaining({
        kind,
        alive: true,
        level: expect.any(Number),
        config_version: expect.stringMatching(/^[0-9a-f]{12}$/),
      }),
    );
  } finally {
    await plane.stop();
  }
});
