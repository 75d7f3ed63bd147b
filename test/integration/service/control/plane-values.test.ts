/** A data plane that uses ever new values of a limit fills neither the store nor the service, and does not keep others from theirs. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";

const [HOSTILE, HONEST] = ["the-token-of-edge-1-0123", "the-token-of-edge-2-0123"];
/** `rate_limit_values`, and what a plane may use of them per minute. */
const [KEPT, MOST] = [20, 200];

let redis: RedisServer;
let service: GatewayProcess;
beforeAll(async () => {
  redis = await startRedis();
  const yaml = `
store: ${redis.url}
workers: 1
log: { level: warn }
cluster: { id: values }
lease: { timeout_ms: 10000 }
rate_limit_values: ${KEPT}
apps: { shop: { guaranteed: 1000, burst: 1000 } }
upstreams: { none: { targets: ["127.0.0.1:1"] } }
routes: [{ path: /, upstream: none }]
limits: [{ name: per-user, key: [user], rate: 1/h, on_store_failure: closed }]
`;
  const control = `admin_token: an-admin-token-0123456, plane_token: a-plane-token-0123456, planes: { edge-1: ${HOSTILE}, edge-2: ${HONEST} }`;
  service = await startGateway(yaml, { control });
});
afterAll(async () => {
  await service?.stop();
  await redis?.stop();
});

async function post(url: string, token: string, type: string, body: string): Promise<string> {
  const headers = { authorization: `Bearer ${token}`, "content-type": type };
  const response = await fetch(url, { method: "POST", headers, body });
  expect(response.status).toBe(200);
  return response.text();
}

interface Line {
  app: string;
  granted: number;
  spent: number;
}

async function sync(token: string, node: string, lines: Line[]) {
  const apps = lines.map((line) => ({ returned: 0, need: 1 - line.granted, want: 1 - line.granted, ...line }));
  const text = await post(
    `${service.controlUrl}/v1/sync`,
    token,
    "application/json",
    JSON.stringify({ node, epoch: 1, seq: 1, apps }),
  );
  return (JSON.parse(text) as { apps: { app: string; code: string; grant: number }[] }).apps;
}

const buckets = async (users: string) =>
  ((await redis.command("KEYS", `ratelimit:*:app:limit:per-user:${users}-*`)) as string[]).length;

it("through /v1/sync: new and claimed values beyond the bound are not stored, and another plane gets its tokens", async () => {
  let refused = 0;
  for (let round = 0; round < 10; round++) {
    const users = Array.from({ length: 100 }, (_, i) => `limit:per-user:sync-${round}-${i}`);
    const tokens = round % 2;
    const lines = users.map((app) => ({ app, granted: tokens, spent: tokens }));
    const replies = await sync(HOSTILE, `edge-1-${round}`, lines);
    refused += replies.filter(({ code }) => code === "quota_exhausted").length;
  }
  expect(await buckets("sync")).toBe(MOST);
  expect(refused).toBe(1_000 / 2 - MOST / 2);
  const [own] = await sync(HONEST, "edge-2", [{ app: "limit:per-user:ann", granted: 0, spent: 0 }]);
  expect(own).toMatchObject({ code: "ok" });
  expect(service.output()).toContain("a data plane uses too many values of limits");
});
