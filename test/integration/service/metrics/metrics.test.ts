/** Metrics of a running service: sums over workers survive crashes, and metrics can be disabled. */
import { request } from "undici";
import { afterEach, describe, expect, it } from "vitest";
import { createRedisStore } from "../../../../src/store/redis/redis-store.js";
import {
  ADMIN_TOKEN,
  type GatewayProcess,
  startGateway,
  startSmallBackend,
  workersOf,
} from "../../../support/gateway-process.js";
import { type ReadPage, readPage } from "../../../support/metrics-page.js";
import { startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

async function start(yaml: string, env: Record<string, string> = {}): Promise<GatewayProcess> {
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const gateway = await startGateway(
    `
node_id: gw
apps: { ample: { guaranteed: 100000, burst: 100000 } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
log: { level: warn }
${yaml}
`,
    { env },
  );
  endings.push(() => gateway.stop());
  return gateway;
}

/** Sends each request over its own connection, so that all workers get some. */
async function send({ url }: GatewayProcess, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    const { statusCode, body } = await request(url, { headers: { "x-app-id": "ample" }, reset: true });
    await body.dump();
    expect(statusCode).toBe(200);
  }
}

async function scrape({ controlUrl }: GatewayProcess): Promise<ReadPage> {
  const { statusCode, body } = await request(`${controlUrl}/metrics`);
  const text = await body.text();
  expect(statusCode, text).toBe(200);
  return readPage(text);
}

const admitted = (page: ReadPage) => page.value("ratelimit_requests_allowed_total", { app_id: "ample" }) ?? 0;

describe("the metrics of a service", () => {
  it("sum all workers, and lose nothing when one is killed and replaced", async () => {
    const gateway = await start("workers: 2");
    await send(gateway, 60);
    const levels = (page: ReadPage) =>
      page.samples
        .filter(({ name }) => name === "ratelimit_degradation_level")
        .map(({ labels }) => labels.node_id)
        .sort();
    // A worker that is too busy for one scrape is included in the next.
    await waitFor("the metrics of both workers", async () => {
      const page = await scrape(gateway);
      expect(levels(page)).toEqual(["gw-1", "gw-2"]);
      return admitted(page) === 60;
    });
    const [victim] = workersOf(gateway.pid) as [number];
    process.kill(victim, "SIGKILL");
    // Nothing is lost while the worker is down, nor when another worker has taken its name.
    await waitFor("the worker to be replaced", async () => {
      const page = await scrape(gateway);
      expect(admitted(page)).toBe(60);
      const workers = workersOf(gateway.pid);
      return workers.length === 2 && !workers.includes(victim) && levels(page).length === 2;
    });
    await send(gateway, 40);
    await waitFor("all requests to be counted", async () => {
      const page = await scrape(gateway);
      expect(page.sum("ratelimit_check_latency_seconds_count", { app_id: "ample" })).toBe(100);
      return admitted(page) === 100;
    });
    // A response may arrive before its exchange is settled. What the killed worker had not reported is lost.
    await waitFor("the last exchange to be settled", async () => {
      const settled = (await scrape(gateway)).sum("ratelimit_cost_deviation_ratio_count", { app_id: "ample" });
      return settled >= 99 && settled <= 100;
    });
  });

  it("count each store call once, whichever process made it", async () => {
    const gateway = await start("workers: 1");
    await send(gateway, 20);
    // The numbers are equal in a scrape between two messages of the worker.
    await waitFor("calls and messages to be the same number", async () => {
      const page = await scrape(gateway);
      const calls = page.sum("ratelimit_redis_commands_total", { command: "grant" });
      const heartbeats = page.sum("ratelimit_redis_commands_total", { command: "heartbeat" });
      expect(calls).toBeGreaterThan(0);
      return calls + heartbeats === page.value("ratelimit_sync_apps_count");
    });
  });

  it("can be disabled; the admin API still has its counters", async () => {
    const gateway = await start("workers: 1", { METRICS_ENABLED: "false" });
    await send(gateway, 5);
    const { statusCode, body } = await request(`${gateway.controlUrl}/metrics`);
    expect([statusCode, ((await body.json()) as { reason: string }).reason]).toEqual([404, "metrics_disabled"]);
    const status = await request(`${gateway.controlUrl}/admin/ratelimit/status`, {
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    const { statistics } = (await status.body.json()) as { statistics: Record<string, number> };
    expect(statistics.total_requests).toBeGreaterThanOrEqual(5);
    expect(statistics.avg_latency_ms).toBeGreaterThan(0);
  });
});

describe("a store on Redis", () => {
  it("reports the calls in flight and their maximum", async () => {
    const redis = await startRedis();
    endings.push(() => redis.stop());
    const store = createRedisStore({ url: redis.url, maxInFlight: 32, deadlineMs: 30_000 });
    endings.push(() => store.close());
    expect(await store.inspect()).toMatchObject({ callsInFlight: 0, mostCallsInFlight: 32 });
    const calls = Array.from({ length: 5 }, () => store.run("nodes", ["a", "b"], ["1000", "1000000", "5000", "1"]));
    expect(await store.inspect()).toMatchObject({ callsInFlight: 5, mostCallsInFlight: 32 });
    await Promise.all(calls);
    expect(await store.inspect()).toMatchObject({ callsInFlight: 0 });
  });
});
