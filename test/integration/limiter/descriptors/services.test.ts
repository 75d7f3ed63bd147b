/** Two services on one Redis, called as by Envoy, share descriptor limits, reload them and label them by rule. */
import { readFileSync, writeFileSync } from "node:fs";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type GatewayProcess, PLANE_TOKEN, startGateway } from "../../../support/gateway-process.js";
import { freePort } from "../../../support/ports.js";
import { connectRateLimitClient, type RateLimitClient } from "../../../support/rate-limit-client.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";

const AUTHORIZATION = { authorization: `Bearer ${PLANE_TOKEN}` };
/** Reached only if something hangs. */
const TEST_MS = 120_000;
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
});
afterAll(async () => {
  for (const { client } of services) client.close();
  await Promise.all(services.map(({ gateway }) => gateway.stop()));
  await redis.stop();
});

function ask({ client }: Service, key: string, value: string) {
  return client.ask({ domain: "shop", descriptors: [{ entries: [{ key, value }] }] }, AUTHORIZATION);
}

/**
 * Counts the admitted calls one by one. The limits are `closed`, so a call that the store does not decide in time is
 * UNAVAILABLE and takes nothing: on a busy machine it only has to be repeated.
 */
async function admitted(times: number, key: string, value: string): Promise<number> {
  const calls = Array.from({ length: times }, async (_, i) => {
    try {
      return (await ask(services[i % 2]!, key, value)).overall_code === "OK";
    } catch (error) {
      expect((error as { code: number }).code).toBe(status.UNAVAILABLE);
      return false;
    }
  });
  return (await Promise.all(calls)).filter(Boolean).length;
}

/** Calls both services until they have admitted `limit` calls in total. */
async function admitAll(limit: number, key: string, value: string): Promise<number> {
  let count = 0;
  return waitFor(
    `${limit} calls to be admitted`,
    async () => {
      count += await admitted(10, key, value);
      return count >= limit && count;
    },
    { withinMs: TEST_MS / 2 },
  );
}

it(
  "two services together admit exactly the limit",
  async () => {
    expect(await admitAll(20, "user", SECRET)).toBe(20);
    expect(await admitted(20, "user", SECRET)).toBe(0);
    const overLimit = await waitFor("a decision", async () => (await ask(services[0]!, "user", SECRET)).statuses?.[0]);
    expect(overLimit).toMatchObject({
      code: "OVER_LIMIT",
      current_limit: { name: "per-user", requests_per_unit: 20, unit: "DAY" },
    });
  },
  TEST_MS,
);

it("metrics, logs and keys contain the rule, and never a value of a descriptor", async () => {
  const page = async () =>
    (await fetch(`${services[0]!.gateway.controlUrl}/metrics`, { headers: AUTHORIZATION })).text();
  const text = await waitFor("the metrics of the worker", async () => {
    const seen = await page();
    return seen.includes('app_id="rate-limit:shop/user"') && seen;
  });
  const keys = (await redis.command("KEYS", "*")) as string[];
  expect(keys.filter((key) => key.includes(":app:rate-limit:"))).not.toEqual([]);
  for (const place of [text, services[0]!.gateway.output(), keys.join("\n")]) expect(place).not.toContain("ann@");
  expect(services[0]!.gateway.output()).toContain("rate-limit:shop/user");
});

it("changed rules apply without a restart, and used tokens stay used", async () => {
  expect(await admitAll(1, "page", "x")).toBe(1);
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
    const replies = await Promise.all(services.map((service) => ask(service, "page", "y")));
    return replies.every(({ statuses }) => statuses?.[0]?.current_limit?.requests_per_unit === 7);
  });
  // The bucket is larger now, but still empty.
  expect(await admitted(4, "page", "x")).toBe(0);
});
