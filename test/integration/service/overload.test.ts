/** An overloaded process refuses new work with 503 and recovers. Health, metrics and administration keep working. */
import { fileURLToPath } from "node:url";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import {
  ADMIN_TOKEN,
  type GatewayProcess,
  PLANE_TOKEN,
  type SmallBackend,
  startGateway,
  startSmallBackend,
  workersOf,
} from "../../support/gateway-process.js";
import { freePort } from "../../support/ports.js";
import { waitFor } from "../../support/wait-for.js";

const preload = fileURLToPath(new URL("../../support/load-process.mjs", import.meta.url));
const APP = { Authorization: `Bearer ${PLANE_TOKEN}` };

let backend: SmallBackend;
let gateway: GatewayProcess;
let envoyUrl: string;
let worker: number;

beforeAll(async () => {
  backend = await startSmallBackend();
  const port = await freePort();
  envoyUrl = `http://127.0.0.1:${port}`;
  gateway = await startGateway(
    `node_id: service
workers: 1
envoy: { listen: "127.0.0.1:${port}" }
overload: { loop_lag_ms: 200, heap: 0.4 }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend, connections: {} }]
`,
    { env: { NODE_OPTIONS: `--import ${preload} --expose-gc --max-old-space-size=160` } },
  );
  worker = workersOf(gateway.pid)[0]!;
});
afterAll(async () => {
  await gateway?.stop();
  await backend?.stop();
});

interface Answer {
  status: number;
  reason: string;
  retryAfter: unknown;
}

async function answer(url: string, options: Parameters<typeof request>[1] = {}): Promise<Answer> {
  const { statusCode: status, headers, body } = await request(url, options);
  const text = await body.text();
  return { status, reason: /"reason":"(\w+)"/.exec(text)?.[1] ?? "", retryAfter: headers["retry-after"] };
}

const overloaded: Answer = { status: 503, reason: "overloaded", retryAfter: "1" };
const isOverloaded = async (url: string, options?: Parameters<typeof request>[1]) =>
  (await answer(url, options)).reason === "overloaded";

async function warnings(): Promise<{ status: string; warnings: string[] }> {
  const { body } = await request(`${gateway.controlUrl}/health/deep`);
  const { components } = (await body.json()) as { components: { overload: { status: string; warnings: string[] } } };
  return components.overload;
}

async function metric(name: string): Promise<number> {
  const { body } = await request(`${gateway.controlUrl}/metrics`);
  const line = (await body.text()).split("\n").find((one) => one.startsWith(name));
  return Number(line?.split(" ").at(-1));
}

/** What works while a process is overloaded. */
async function expectOperable(): Promise<void> {
  expect((await answer(`${envoyUrl}/healthcheck`)).status).toBe(200);
  expect((await answer(`${gateway.controlUrl}/health/live`)).status).toBe(200);
  expect((await answer(`${gateway.controlUrl}/health/ready`)).status).toBe(200);
  const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` };
  expect((await answer(`${gateway.controlUrl}/admin/ratelimit/status`, { headers })).status).toBe(200);
}

const json = {
  method: "POST" as const,
  headers: APP,
  body: '{"domain":"a","descriptors":[{"entries":[{"key":"a","value":"b"}]}]}',
};
const sync = { method: "POST" as const, headers: { ...APP, "content-type": "text/plain" }, body: "n 1 1\n" };

function upgradeStatus(): Promise<number> {
  return new Promise((resolve) => {
    const socket = new WebSocket(gateway.url.replace("http", "ws"));
    socket.on("error", () => {});
    socket.on("open", () => resolve(101));
    socket.on("unexpected-response", (_request, response) => resolve(response.statusCode ?? 0));
  });
}

/** `signal` starts and ends the overload of this process. */
async function during(pid: number, signal: NodeJS.Signals, check: () => Promise<void>): Promise<void> {
  process.kill(pid, signal);
  try {
    await check();
  } finally {
    process.kill(pid, signal);
  }
  await waitFor("the end of the overload", async () => (await warnings()).status === "healthy");
}

describe("a worker", () => {
  it.for([
    ["whose event loop is blocked", "SIGUSR2", "loop_lag"],
    ["whose heap is nearly full", "SIGWINCH", "heap"],
  ] as const)("%s refuses new work, says so, and recovers", async ([, signal, cause]) => {
    expect((await answer(`${gateway.url}/`)).status).toBe(200);
    expect(await warnings()).toEqual({ status: "healthy", warnings: [] });
    const before = await metric('ratelimit_overload_refusals_total{listener="gateway"}');
    await during(worker, signal, async () => {
      await waitFor("a refusal by the gateway", () => isOverloaded(`${gateway.url}/`));
      await waitFor("a refusal by the listener for Envoy", () => isOverloaded(`${envoyUrl}/json`, json));
      await waitFor("all to be refused", async () => {
        const replies = await Promise.all(Array.from({ length: 5 }, () => answer(`${gateway.url}/`)));
        return replies.every((reply) => reply.reason === "overloaded");
      });
      expect(await answer(`${gateway.url}/`)).toEqual(overloaded);
      expect(await upgradeStatus()).toBe(503);
      await expectOperable();
      const warned = await warnings();
      expect(warned.status).toBe("degraded");
      expect(warned.warnings[0]).toMatch(new RegExp(`^service-1 refuses \\d+ % of new work: .*${cause}`));
      expect(await metric('ratelimit_overload_refused_share{node_id="service-1"}')).toBeGreaterThan(0);
    });
    expect((await answer(`${gateway.url}/`)).status).toBe(200);
    expect((await answer(`${envoyUrl}/json`, json)).status).toBe(200);
    expect(await metric('ratelimit_overload_refusals_total{listener="gateway"}')).toBeGreaterThan(before);
    expect(gateway.output()).toContain("overloaded: refusing new work");
    expect(gateway.output()).toContain("no longer overloaded");
    expect(workersOf(gateway.pid)).toEqual([worker]);
  });
});

describe("the primary", () => {
  it("refuses sync messages while its event loop is blocked; renewals, administration and the gateway work", async () => {
    await during(gateway.pid, "SIGUSR2", async () => {
      await waitFor("a refusal", () => isOverloaded(`${gateway.controlUrl}/v1/sync`, sync));
      const renewal = { ...sync, body: "proxy\n" };
      expect((await answer(`${gateway.controlUrl}/v1/connections/renew`, renewal)).status).toBe(200);
      await expectOperable();
      expect((await warnings()).warnings[0]).toContain("service refuses");
      expect(await metric('ratelimit_overload_refusals_total{listener="control"}')).toBeGreaterThan(0);
    });
    expect((await answer(`${gateway.controlUrl}/v1/sync`, sync)).status).toBe(200);
  });
});
