/** The dynamic module in a real Envoy, with a real service and Redis: decisions, headers, bodies, settlement. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { type EnvoyProcess, startEnvoy } from "../../../support/envoy-process.js";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { type Backend, startBackend } from "../../../support/http-backend.js";
import { readPage } from "../../../support/metrics-page.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";

describeEnvoy("Envoy with the dynamic module", () => {
  let redis: RedisServer;
  let backend: Backend;
  let service: GatewayProcess;
  let envoy: EnvoyProcess;
  let rejected = 0;

  beforeAll(async () => {
    redis = await startRedis();
    backend = await startBackend((_request, response) => response.end("hello"));
    const yaml = `store: ${redis.url}
log: { level: warn }
lease: { timeout_ms: 10000 }
identity: { trusted_hops: ["127.0.0.0/8"] }
upstreams: { backend: { targets: ["127.0.0.1:${backend.port}"] } }
routes: [{ path: /, upstream: backend }]
apps:
  default: { guaranteed: 1000, burst: 1000 }
  small: { guaranteed: 0.001, burst: 3, on_store_failure: closed }
`;
    service = await startGateway(`node_id: service\nworkers: 1\n${yaml}`);
    const services = [service.controlUrl.replace("http://", "")];
    envoy = await startEnvoy(yaml, { services, mode: "module", node: "envoy-0" });
  });

  afterAll(async () => {
    await envoy?.stop();
    await service?.stop();
    await backend?.stop();
    await redis?.stop();
  });

  /** On a busy machine the store can seem slow: then a request gets 503 and is repeated. */
  async function ask(method: string): Promise<Response> {
    const response = await fetch(`${envoy.url}/`, { method, headers: { "x-app-id": "small" } });
    if (response.status !== 200) rejected += 1;
    return response.status === 503 ? ask(method) : response;
  }

  test("a request within its limit passes, with the headers of the decision on the backend's response", async () => {
    const response = await fetch(`${envoy.url}/`, { headers: { "x-app-id": "default" } });
    expect([response.status, await response.text()]).toEqual([200, "hello"]);
    expect(response.headers.get("x-ratelimit-limit")).toBe("1000");
    expect(Number(response.headers.get("x-ratelimit-cost"))).toBeGreaterThan(0);
    expect(Number(response.headers.get("x-ratelimit-remaining"))).toBeLessThanOrEqual(1000);
  });

  test("exactly the burst is admitted over all workers; the rest gets 429 with the reason", async () => {
    const statuses = await Promise.all(Array.from({ length: 12 }, async () => (await ask("HEAD")).status));
    expect(statuses.sort()).toEqual([...Array(3).fill(200), ...Array(9).fill(429)]);
    const refused = await ask("GET");
    expect(refused.status).toBe(429);
    expect(refused.headers.get("content-type")).toBe("application/json");
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refused.json()).toMatchObject({ app_id: "small", reason: "quota_exhausted", limit: 3 });
  });

  test("a request with an invalid identity is refused", async () => {
    const response = await fetch(`${envoy.url}/`, { headers: { "x-app-id": "{small}" } });
    expect([response.status, await response.json()]).toMatchObject([400, { reason: "invalid_identity" }]);
  });

  test("the service learns what all workers have decided", async () => {
    await waitFor("the counters to arrive", async () => {
      const page = readPage(await (await fetch(`${service.controlUrl}/metrics`)).text());
      return page.sum("ratelimit_requests_rejected_total", { app_id: "small" }) === rejected;
    });
  });
});
