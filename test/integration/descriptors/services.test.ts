/** Two services with rules on one Redis, asked as Envoy asks: one limit for both, other rules without a restart, labels by rule. */
import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type GatewayProcess, PLANE_TOKEN, startGateway } from "../../support/gateway-process.js";
import { freePort } from "../../support/ports.js";
import { connectRateLimitClient, type RateLimitClient } from "../../support/rate-limit-client.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { waitFor } from "../../support/wait-for.js";

const AUTHORIZATION = { authorization: `Bearer ${PLANE_TOKEN}` };
const SECRET = "ann@example.com {x}";

interface Service {
  gateway: GatewayProcess;
  client: RateLimitClient;
}

let redis: RedisServer;
let services: Service[] = [];

async function startService(node: string): Promise<Service> {
  const port = await freePort();
  const gateway = await startGateway(`
node_id: ${node}
workers: 1
store: ${redis.url}
envoy: { listen: "127.0.0.1:${port}" }
lease: { timeout_ms: 10000 }
upstreams: { none: { targets: ["127.0.0.1:9"] } }
routes: [{ path: /, upstream: none }]
rate_limits:
  - domain: shop
    descriptors:
      - { key: user, rate_limit: { unit: day, requests_per_unit: 20, name: per-user }, on_store_failure: closed }
      - { key: page, rate_limit: { unit: day, requests_per_unit: 1 }, on_store_failure: closed }
`);
  return { gateway, client: connectRateLimitClient(`127.0.0.1:${port}`) };
}

beforeAll(async () => {
  redis = await startRedis();
  services = await Promise.all([startService("one"), startService("two")]);
}, 60_000);
afterAll(async () => {
  for (const { client } of services) client.close();
  await Promise.all(services.map(({ gateway }) => gateway.stop()));
  await redis.stop();
});

function ask({ client }: Service, key: string, value: string) {
  return client.ask({ domain: "shop", descriptors: [{ entries: [{ key, value }] }] }, AUTHORIZATION);
}

async function passed(times: number, key: string, value: string): Promise<number> {
  const told = await Promise.all(Array.from({ length: times }, (_, i) => ask(services[i % 2]!, key, value)));
  return told.filter(({ overall_code }) => overall_code === "OK").length;
}

it("both together let no more pass than the limit, and all of it in the end", async () => {
  let count = 0;
  await waitFor("the whole limit to be used", async () => {
    count += await passed(10, "user", SECRET);
    return count >= 20;
  });
  count += await passed(20, "user", SECRET);
  expect(count).toBe(20);
  const status = (await ask(services[0]!, "user", SECRET)).statuses?.[0];
  expect(status).toMatchObject({
    code: "OVER_LIMIT",
    current_limit: { name: "per-user", requests_per_unit: 20, unit: "DAY" },
  });
});

it("is told by rule: no value is in a metric, a log line or a key", async () => {
  const page = async () =>
    (await fetch(`${services[0]!.gateway.controlUrl}/metrics`, { headers: AUTHORIZATION })).text();
  const text = await waitFor("the numbers of the worker", async () => {
    const seen = await page();
    return seen.includes('app_id="rate-limit:shop/user"') && seen;
  });
  const keys = (await redis.command("KEYS", "*")) as string[];
  expect(keys.filter((key) => key.includes(":app:rate-limit:"))).not.toEqual([]);
  for (const place of [text, services[0]!.gateway.output(), keys.join("\n")]) expect(place).not.toContain("ann@");
  expect(services[0]!.gateway.output()).toContain("rate-limit:shop/user");
});

it("other rules hold without a restart, and what was used stays used", async () => {
  expect(await passed(2, "page", "x")).toBe(1);
  for (const { gateway } of services) {
    const text = readFileSync(gateway.file, "utf8");
    writeFileSync(
      gateway.file,
      text.replace(
        "key: page, rate_limit: { unit: day, requests_per_unit: 1 }",
        "key: page, rate_limit: { unit: day, requests_per_unit: 7 }",
      ),
    );
  }
  await waitFor("the new limit", async () => {
    const told = await Promise.all(services.map((service) => ask(service, "page", "y")));
    return told.every(({ statuses }) => statuses?.[0]?.current_limit?.requests_per_unit === 7);
  });
  // The bucket is larger now, and as empty as it was.
  expect(await passed(4, "page", "x")).toBe(0);
});
