/** The option `headers` selects the rate limit headers of responses, in the same way on every plane. */
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startEnvoy } from "../../support/envoy-process.js";
import { ADMIN_TOKEN, type GatewayProcess, startGateway } from "../../support/gateway-process.js";
import { startBackend } from "../../support/http-backend.js";
import { type NginxProcess, startNginx } from "../../support/nginx-process.js";
import { waitFor } from "../../support/wait-for.js";

const X_RATE_LIMIT = ["x-ratelimit-cost", "x-ratelimit-limit", "x-ratelimit-remaining"];
const IETF = ["ratelimit", "ratelimit-policy"];

const endings: (() => unknown)[] = [];
const urls: Record<string, string> = {};
let service: GatewayProcess;
let nginx: NginxProcess;
let yamlWith: (headers: string) => string;

beforeAll(async () => {
  const backend = await startBackend((_, response) => {
    response.setHeader("X-RateLimit-Limit", "backend");
    response.setHeader("RateLimit", "backend");
    response.end("ok");
  });
  endings.push(() => backend.stop());
  yamlWith = (headers) => `
log: { level: warn }
headers: ${headers}
apps:
  app: { guaranteed: 1000, burst: 1000 }
  scarce: { guaranteed: 0.1, burst: 10 }
  trial: { guaranteed: 0.1, burst: 10, dry_run: true }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
  const yaml = yamlWith("{ x_ratelimit: false }");
  service = await startGateway(`node_id: service\nworkers: 1\n${yaml}`);
  endings.push(() => service.stop());
  const services = [service.controlUrl.replace("http://", "")];
  nginx = await startNginx(yaml, { services, workers: 1 });
  endings.push(() => nginx.stop());
  const envoy = await startEnvoy(yaml, { services, node: "envoy", workers: 1 });
  endings.push(() => envoy.stop());
  Object.assign(urls, { node: service.url, nginx: nginx.url, envoy: envoy.url });
});

afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

async function headersOf(plane: string, app: string): Promise<{ status: number; headers: Record<string, unknown> }> {
  const { statusCode, headers, body } = await request(urls[plane]!, { headers: { "x-app-id": app } });
  await body.dump();
  return { status: statusCode, headers };
}

async function lastOf(count: number, plane: string, app: string): ReturnType<typeof headersOf> {
  for (let i = 1; i < count; i++) await headersOf(plane, app);
  return headersOf(plane, app);
}

const present = (headers: Record<string, unknown>, names: string[]) => names.filter((name) => name in headers);

describe.each(["node", "nginx", "envoy"])("%s with x_ratelimit: false", (plane) => {
  it("sends the IETF headers and leaves X-RateLimit headers to the backend", async () => {
    const { status, headers } = await headersOf(plane, "app");
    expect(status).toBe(200);
    expect(present(headers, IETF)).toEqual(IETF);
    expect(headers.ratelimit).toMatch(/^"app";r=\d+;t=\d+$/);
    expect(present(headers, X_RATE_LIMIT)).toEqual(["x-ratelimit-limit"]);
    expect(headers["x-ratelimit-limit"]).toBe("backend");
  });

  it("sends Retry-After with a refusal and X-RateLimit-Dry-Run on a dry run", async () => {
    const { status, headers } = await lastOf(10, plane, "scarce");
    expect(status).toBe(429);
    expect(Number(headers["retry-after"])).toBeGreaterThan(0);
    expect(present(headers, [...X_RATE_LIMIT, ...IETF])).toEqual(IETF);
    const trial = await lastOf(10, plane, "trial");
    expect(trial.headers["x-ratelimit-dry-run"]).toBe("would-refuse; reason=quota_exhausted");
  });
});

it.each(["node", "nginx"])("%s applies changed options without a restart", async (plane) => {
  if (plane === "nginx") await nginx.reload(yamlWith("{ x_ratelimit: true, ietf: false }"));
  else {
    const { statusCode, body } = await request(`${service.controlUrl}/admin/ratelimit/config`, {
      method: "PUT",
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
      body: JSON.stringify({ config: { headers: { x_ratelimit: true, ietf: false } } }),
    });
    expect([statusCode, await body.text()]).toEqual([200, expect.anything()]);
  }
  await waitFor("the new headers", async () => "x-ratelimit-cost" in (await headersOf(plane, "app")).headers);
  const { headers } = await headersOf(plane, "app");
  expect(present(headers, X_RATE_LIMIT)).toEqual(X_RATE_LIMIT);
  expect(headers["x-ratelimit-limit"]).toBe("1000");
  expect(present(headers, IETF)).toEqual(["ratelimit"]);
  expect(headers.ratelimit).toBe("backend");
});
