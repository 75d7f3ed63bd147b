/** Calls every endpoint of the seeds on a running service with curl, and checks the fields and their types. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ADMIN_TOKEN, type GatewayProcess, startGateway, startSmallBackend } from "../support/gateway-process.js";
import { startRedis } from "../support/redis-server.js";
import { differences, seedExamples } from "../support/seed-examples.js";
import { waitFor } from "../support/wait-for.js";

async function curl(...args: string[]): Promise<{ status: number; body: string }> {
  const { stdout } = await promisify(execFile)("curl", ["-s", "-m", "20", "-w", "\n%{http_code}", ...args]);
  const end = stdout.lastIndexOf("\n");
  return { status: Number(stdout.slice(end + 1)), body: stdout.slice(0, end) };
}

const metrics = [
  'ratelimit_requests_total{app_id="video",method="GET",status="allowed"}',
  'ratelimit_requests_total{app_id="video",method="GET",status="rejected"}',
  'ratelimit_request_cost_bucket{le="1",app_id="video",method="GET"}',
  'ratelimit_request_cost_sum{app_id="video",method="GET"}',
  'ratelimit_check_latency_seconds_bucket{le="0.001",app_id="video",source="local"}',
  'ratelimit_l2_tokens_available{app_id="video"}',
  'ratelimit_l3_cache_hit_ratio{app_id="video",node_id="gw-1"}',
  'ratelimit_emergency_mode{cluster_id="cluster-01"}',
  'ratelimit_degradation_level{node_id="gw-1"}',
];

describe.each(["embedded", "redis"])("a service on %s", (kind) => {
  const endings: (() => unknown)[] = [];
  let gateway: GatewayProcess;
  let refused: { status: number; body: string };

  beforeAll(async () => {
    const backend = await startSmallBackend();
    endings.push(() => backend.stop());
    let store = "embedded";
    if (kind === "redis") {
      const server = await startRedis();
      endings.push(() => server.stop());
      store = server.url;
    }
    gateway = await startGateway(`
node_id: gw
workers: 1
store: ${store}
apps: { video: { guaranteed: 1, burst: 5, profile: { based_on: iops, bandwidth: 0 } } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`);
    endings.push(() => gateway.stop());
    for (let i = 0; i < 10; i++) await curl("-H", "X-App-Id: video", `${gateway.url}/`);
    // Before any operator command, which would change the limits.
    refused = await curl("-i", "-H", "X-App-Id: video", "-X", "PUT", "-d", "x", `${gateway.url}/`);
  });
  afterAll(async () => {
    for (const end of endings.splice(0).reverse()) await end();
  });

  const admin = (...args: string[]) => curl("-H", `Authorization: Bearer ${ADMIN_TOKEN}`, ...args);
  const json = (body: unknown) => ["-H", "Content-Type: application/json", "-d", JSON.stringify(body)];

  it.each(seedExamples)("$call", async ({ call, body, reply }) => {
    const [method = "", path = ""] = call.split(" ");
    const sent = body === undefined ? [] : json(body);
    const answer = await admin("-X", method, ...sent, `${gateway.controlUrl}${path}`);
    expect(answer.status, answer.body).toBe(200);
    expect(differences(JSON.parse(answer.body), reply), answer.body).toEqual([]);
  });

  it("GET /metrics", async () => {
    await waitFor("every metric of the seeds", async () => {
      const { status, body } = await curl(`${gateway.controlUrl}/metrics`);
      expect(status).toBe(200);
      const missing = metrics.filter((metric) => !body.includes(`${metric} `));
      if (missing.length > 0) throw new Error(`missing: ${missing.join(" ")}`);
      return true;
    });
  });

  it("a refused request: status, headers and body", () => {
    const { status, body } = refused;
    expect(status).toBe(429);
    expect(body).toMatch(/^retry-after: \d+/im);
    expect(body).toMatch(/^x-ratelimit-remaining: \d+/im);
    expect(body).toMatch(/^x-ratelimit-limit: 5/im);
    const refusal: unknown = JSON.parse(body.slice(body.indexOf("{")));
    const example = { error: "", reason: "", app_id: "", retry_after: 1, remaining: 0, limit: 5 };
    expect(differences(refusal, example)).toEqual([]);
  });
});
