/** Without the store, reads return what is known, changes get 503, and nothing hangs. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { createRedisStore } from "../../../../src/store/redis/redis-store.js";
import type { Store } from "../../../../src/store/store.js";
import { type ControlServer, startControl } from "../../../support/control-server.js";
import { appReport, nodeReport } from "../../../support/node-reports.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";

type Json = Record<string, unknown>;

describe.each(["killed", "stopped"])("Redis is %s", (how) => {
  let redis: RedisServer;
  let store: Store;
  let control: ControlServer;
  beforeAll(async () => {
    redis = await startRedis();
    store = createRedisStore({ url: redis.url, deadlineMs: 300 });
    control = await startControl(store, { reports: [nodeReport()], appReports: [[appReport()]] });
    expect((await control.admin("GET", "/status")).status).toBe(200);
    if (how === "killed") await redis.kill();
    else redis.pause();
    await waitFor("readiness to notice", async () => (await control.call("GET", "/health/ready")).status === 503);
  });
  afterAll(async () => {
    if (how === "stopped") redis.resume();
    await control.close();
    await store.close();
    await redis.stop();
  });

  it("readiness fails, liveness does not", async () => {
    expect(await (await control.call("GET", "/health/ready")).json()).toMatchObject({
      ...{ ready: false, checks: { redis: "error", shared_memory: "ok", config_loaded: true } },
    });
    expect((await control.call("GET", "/health/live")).status).toBe(200);
    const deep = await control.call("GET", "/health/deep");
    expect([deep.status, await deep.json()]).toMatchObject([
      503,
      {
        status: "unhealthy",
        components: { nginx: { status: "healthy" }, redis: { status: "unhealthy", kind: "redis", latency_ms: null } },
        nodes: [],
      },
    ]);
  });

  it("status and apps return what is known without the store", async () => {
    const status = await control.admin("GET", "/status");
    expect([status.status, await status.json()]).toMatchObject([
      200,
      { redis: { connected_nodes: 0 }, live_nodes: 2, statistics: { total_requests: 100 } },
    ]);
    const app = await control.admin("GET", "/apps/video");
    const shown = (await app.json()) as Json;
    expect([app.status, shown]).toMatchObject([
      200,
      { layers: { l1: { tokens: null }, l2: null, l3: { held: null, leases: [] } }, statistics: { rejected: 2 } },
    ]);
    expect(shown.why).toContain("The store does not answer");
    const apps = await control.admin("GET", "/apps");
    expect([apps.status, await apps.json()]).toMatchObject([
      200,
      { apps: [{ l2_tokens: null, rejected: 2 }, {}, {}, {}], cluster: { tokens: null } },
    ]);
  });

  it.each([
    ["POST", "/emergency", { action: "activate" }],
    ["POST", "/reconcile", { app_id: "video" }],
    ["POST", "/reconcile", {}],
    ["POST", "/borrow", { app_id: "loans", amount: 1 }],
    ["POST", "/repay", { app_id: "loans", amount: 1 }],
    ["POST", "/reload", { source: "redis" }],
    ["PUT", "/config", { config: { apps: { video: { burst: 5 } } } }],
    ["DELETE", "/config", undefined],
    ["GET", "/config", undefined],
    ["GET", "/connections", undefined],
  ])("%s %s is 503 with the kind of failure", async (method, path, body) => {
    const lines = control.audited().length;
    const response = await control.admin(method, path, body);
    const answer = (await response.json()) as Json;
    expect([response.status, answer.error]).toEqual([503, "store_unavailable"]);
    expect(["timeout", "unavailable"]).toContain(answer.reason);
    expect(response.headers.get("retry-after")).toBe("1");
    const own = control.audited().slice(lines);
    if (method === "GET") expect(own).toEqual([]);
    else expect(own).toMatchObject([{ outcome: "failed", status: 503, why: answer.reason }]);
  });

  it("operations that need no store succeed", async () => {
    expect((await control.admin("POST", "/degradation", { level: 3 })).status).toBe(200);
    expect((await control.admin("POST", "/reload", { source: "file", force: true })).status).toBe(200);
    expect((await control.admin("GET", "/emergency")).status).toBe(200);
  });
});

describe("a Redis that evicts keys", () => {
  it("is degraded in deep health, with the reason", async () => {
    const redis = await startRedis({ args: ["--maxmemory-policy", "allkeys-lru"] });
    const store = createRedisStore({ url: redis.url, deadlineMs: 2_000 });
    const control = await startControl(store);
    try {
      await control.post({ node: "plane-1", epoch: 1, seq: 1, apps: [] });
      const deep = await control.call("GET", "/health/deep");
      expect([deep.status, await deep.json()]).toMatchObject([
        200,
        {
          status: "degraded",
          components: {
            redis: {
              ...{ status: "degraded", eviction_policy: "allkeys-lru", connected_nodes: 1 },
              warnings: [expect.stringContaining("noeviction")],
            },
          },
          nodes: [{ node_id: "plane-1", alive: true }],
        },
      ]);
    } finally {
      await control.close();
      await store.close();
      await redis.stop();
    }
  });
});

describe("readiness", () => {
  const states: [string, Parameters<typeof startControl>[1], Json][] = [
    [
      "a worker is missing",
      { deps: { workers: () => ({ expected: 2, listening: 1 }) } },
      { ready: false, checks: { shared_memory: "error" } },
    ],
    ["the service stops", { deps: { state: () => "stopping" } }, { ready: false, state: "stopping" }],
  ];

  it.each(states)("is 503 when %s", async (_what, options, expected) => {
    const control = await startControl(createEmbeddedStore(), options);
    const response = await control.call("GET", "/health/ready");
    expect([response.status, await response.json()]).toMatchObject([503, expected]);
    await control.close();
  });
});
