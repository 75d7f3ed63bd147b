/** Values of limits in the shared memory of nginx: bounded in number, and exact through reloads, killed workers and shutdown. */
import { request } from "undici";
import { afterEach, expect, it } from "vitest";
import { createQuota, type Quota } from "../../../../src/quota/quota.js";
import { createRedisStore } from "../../../../src/store/redis/redis-store.js";
import { startGateway, startSmallBackend } from "../../../support/gateway-process.js";
import { type NginxProcess, startNginx } from "../../../support/nginx-process.js";
import { startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

interface World {
  nginx: NginxProcess;
  quota: Quota;
  yaml: string;
}

/** One limit per user. The request that finds nginx ready belongs to another app. */
async function start(rate: string, values = 1_000): Promise<World> {
  const redis = await startRedis();
  endings.push(() => redis.stop());
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const yaml = `
store: ${redis.url}
workers: 1
rate_limit_values: ${values}
cluster: { id: limits }
lease: { timeout_ms: 5000 }
log: { level: warn }
apps: { shop: { guaranteed: 100000, burst: 100000, on_store_failure: closed, profile: { based_on: iops, bandwidth: 0 } } }
limits: [{ name: per-user, key: [user], rate: ${rate}, on_store_failure: closed, match: { app: [shop] } }]
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
  const service = await startGateway(yaml);
  endings.push(() => service.stop());
  const nginx = await startNginx(yaml, { services: [service.controlUrl.replace("http://", "")], node: "nginx" });
  endings.push(() => nginx.stop());
  const store = createRedisStore(redis.url);
  endings.push(() => store.close());
  const quota = createQuota(store, { id: "limits", capacity: 1_000_000, rate: 500_000, nodeTtlMs: 10_000 });
  return { nginx, quota, yaml };
}

/** On a busy machine the store can seem slow for a while. Then requests get 503, which costs nothing, and are repeated. */
async function send({ url }: NginxProcess, user: string, address?: string): Promise<number> {
  for (;;) {
    const { statusCode, body } = await request(url, {
      headers: {
        "x-app-id": "shop",
        "x-user-id": user,
        ...(address === undefined ? {} : { "x-forwarded-for": address }),
      },
      // A killed worker closes its connections.
      reset: true,
    });
    await body.dump();
    if (statusCode !== 503) return statusCode;
  }
}

async function metric({ statusUrl }: NginxProcess, name: string): Promise<number> {
  const { body } = await request(`${statusUrl}/metrics`);
  const line = (await body.text())
    .split("\n")
    .find((each) => each.startsWith(`${name} `) || each.startsWith(`${name}{`));
  return Number(line?.split(" ").at(-1));
}

async function spentBy(quota: Quota, user: string, perHour = 1_000) {
  const limits = { id: `limit:per-user:${user}`, burst: perHour, guaranteed: perHour / 3_600, fillSeconds: 3_600 };
  const { spent, granted, returned } = await quota.inspect({ ...limits, priority: 2, borrow: false });
  return { spent, held: granted - spent - returned };
}

it("values beyond the maximum share one bucket, and none passes freely", async () => {
  const { nginx } = await start("1/h", 20);
  const users = Array.from({ length: 150 }, (_, i) => `user-${i}`);
  let [twice, most] = [0, 0];
  const passed = new Map<string, number>();
  for (let round = 0; round < 2; round++) {
    for (let from = 0; from < users.length; from += 10) {
      const some = users.slice(from, from + 10);
      const seen = await Promise.all(some.map((user) => send(nginx, user)));
      for (const [i, user] of some.entries()) if (seen[i] === 200) passed.set(user, (passed.get(user) ?? 0) + 1);
      most = Math.max(most, await metric(nginx, "ratelimit_limit_values"));
    }
  }
  for (const count of passed.values()) twice += count - 1;
  expect(passed.size).toBeGreaterThanOrEqual(20);
  // Once from the bucket that all further values share.
  expect(twice).toBeLessThanOrEqual(1);
  expect(most).toBeGreaterThanOrEqual(20);
  // Each of the two workers may create one at the same time.
  expect(most).toBeLessThanOrEqual(21);
});

it("a client that invents values uses up only its own: newcomers have their limit", async () => {
  const { nginx } = await start("2/h", 20);
  let made = 0;
  const invent = (count: number) =>
    Promise.all(Array.from({ length: count }, () => send(nginx, `invented-${made++}`, "198.51.100.7")));
  await invent(60);
  for (let i = 0; i < 8; i++) {
    const address = `203.0.113.${i * 3 + 1}`;
    for (let n = 0; n < 2; n++) {
      await invent(20);
      expect(await send(nginx, `new-${i}`, address), address).toBe(200);
    }
  }
  expect(await invent(40)).toContain(429);
  expect(await metric(nginx, "ratelimit_limit_values")).toBeLessThanOrEqual(21);
});

it("idle values make room for others, after their tokens were returned", async () => {
  const { nginx, quota } = await start("100/h", 10);
  for (let i = 0; i < 10; i++) expect(await send(nginx, `early-${i}`)).toBe(200);
  // Without room it shares a bucket; soon there is room.
  const late = await waitFor("a late value to get its own bucket", async () => {
    await send(nginx, "late");
    const { spent, held } = await spentBy(quota, "late", 100);
    return spent + held > 0;
  });
  expect(late).toBe(true);
  const early = await Promise.all(Array.from({ length: 10 }, (_, i) => spentBy(quota, `early-${i}`, 100)));
  const released = early.filter(({ held }) => held === 0);
  expect(released.length).toBeGreaterThanOrEqual(1);
  for (const { spent } of released) expect(spent).toBe(1);
  expect(await metric(nginx, "ratelimit_limit_values")).toBeLessThanOrEqual(10);
});

it("every request is charged to its value once, through a reload, a killed worker and shutdown", async () => {
  const { nginx, quota, yaml } = await start("1000/h");
  let passed = 0;
  const some = async () => {
    const seen = await Promise.all(Array.from({ length: 40 }, () => send(nginx, "ann")));
    passed += seen.filter((status) => status === 200).length;
  };
  await some();
  await nginx.reload(yaml);
  await some();
  const [victim] = nginx.workers();
  process.kill(victim!, "SIGKILL");
  await waitFor("the worker to be replaced", () => {
    const workers = nginx.workers();
    return workers.length === 2 && !workers.includes(victim!);
  });
  await some();
  await nginx.quit();
  expect(passed).toBe(120);
  expect(await spentBy(quota, "ann")).toEqual({ spent: 120, held: 0 });
});

it("metrics count requests by limit, and never name a value", async () => {
  const { nginx } = await start("2/h");
  for (let i = 0; i < 3; i++) await send(nginx, "ann");
  const counted = (status: string) =>
    metric(nginx, `ratelimit_limit_requests_total{limit="per-user",status="${status}"}`);
  // Requests without the store are refused, too.
  await waitFor("the refusal to be counted", async () => (await counted("rejected")) >= 1);
  await waitFor("the others to be counted", async () => (await counted("allowed")) >= 2);
  expect(await counted("allowed")).toBe(2);
  const { body } = await request(`${nginx.statusUrl}/metrics`);
  expect(await body.text()).not.toContain("ann");
});
