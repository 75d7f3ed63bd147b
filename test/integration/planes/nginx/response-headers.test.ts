/** The rate limit headers of nginx's responses: correct values, and no interference from headers of clients or backends. */
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { Pool } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type GatewayProcess, startGateway, startSmallBackend } from "../../../support/gateway-process.js";
import { type NginxProcess, startNginx } from "../../../support/nginx-process.js";
import { waitFor } from "../../../support/wait-for.js";

const LIMITS = [1, 9, 10, 99, 100, 1_000, 12_345, 999_999, 1_000_000, 123_456_789, 999_999_999, 1_000_000_000];
const RATE = 7;
const NAMES = ["X-RateLimit-Cost", "X-RateLimit-Limit", "X-RateLimit-Remaining", "RateLimit-Policy", "RateLimit"];

interface Answer {
  status: number;
  /** As sent, in their order. */
  names: string[];
  headers: Record<string, string>;
}

async function send(nginx: Pool, app: string, headers: string[] = []): Promise<Answer> {
  const response = await nginx.request({
    path: "/app",
    method: "GET",
    headers: ["x-app-id", app, ...headers],
    responseHeaders: "raw",
  });
  await response.body.dump();
  const flat = (response.headers as unknown as Buffer[]).map(String);
  const names = flat.filter((_, i) => i % 2 === 0);
  const pairs = names.map((name, i): [string, string] => [name, flat[2 * i + 1]!]);
  return { status: response.statusCode, names, headers: Object.fromEntries(pairs) };
}

const rateLimitNames = (names: string[]) => names.filter((name) => /ratelimit/i.test(name));

describe("headers of a decision", () => {
  const endings: (() => unknown)[] = [];
  let pool: Pool;
  let service: GatewayProcess;

  beforeAll(async () => {
    const backend = await startSmallBackend();
    endings.push(() => backend.stop());
    const apps = LIMITS.map((limit) => `  limit-${limit}: { guaranteed: ${RATE}, burst: ${limit} }\n`);
    const yaml = `
log: { level: error }
cluster: { capacity: 1000000000, rate: 1 }
apps:
  trial: { guaranteed: 1000, burst: 1000, dry_run: true }
  changing: { guaranteed: 20, burst: 40 }
${apps.join("")}
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
    service = await startGateway(`workers: 1\nnode_id: service\n${yaml}`);
    endings.push(() => service.stop());
    const nginx = await startNginx(yaml, { services: [service.controlUrl.replace("http://", "")], workers: 1 });
    endings.push(() => nginx.stop());
    pool = new Pool(nginx.url, { connections: 8 });
    endings.push(() => pool.close());
    await waitFor("an admitted request", async () => (await send(pool, "trial")).status === 200);
  });

  afterAll(async () => {
    for (const end of endings.splice(0).reverse()) await end();
  });

  it.each(LIMITS)("have the right values for a limit of %i", async (limit) => {
    const app = `limit-${limit}`;
    const { names, headers } = await send(pool, app);
    expect(rateLimitNames(names)).toEqual(NAMES);
    const remaining = Number(headers["X-RateLimit-Remaining"]);
    expect(remaining).toBeLessThanOrEqual(limit);
    expect(headers).toMatchObject({
      "X-RateLimit-Cost": expect.stringMatching(/^[12]$/),
      "X-RateLimit-Limit": String(limit),
      "X-RateLimit-Remaining": String(remaining),
      "RateLimit-Policy": `"${app}";q=${limit};w=${Math.ceil(limit / RATE)};qu="tokens"`,
      RateLimit: `"${app}";r=${remaining};t=${Math.ceil((limit - remaining) / RATE)}`,
    });
  });

  it("show that an app is on a dry run", async () => {
    const { headers } = await send(pool, "trial");
    expect(headers["X-RateLimit-Dry-Run"]).toBe("pass");
    expect(headers["X-RateLimit-Limit"]).toBe("1000");
  });

  it("show the new rate of an app after a change in the service, without a change in nginx", async () => {
    const policy = async () => (await send(pool, "changing")).headers["RateLimit-Policy"];
    expect(await policy()).toBe('"changing";q=40;w=2;qu="tokens"');
    const text = readFileSync(service.file, "utf8");
    writeFileSync(service.file, text.replace("changing: { guaranteed: 20,", "changing: { guaranteed: 10,"));
    await waitFor("the new policy", async () => (await policy()) === '"changing";q=40;w=4;qu="tokens"');
  });
});

describe("a client that sends the rate limit headers of the next response", () => {
  const received: IncomingMessage["rawHeaders"][] = [];
  const backend = createServer((request, response) => {
    received.push(request.rawHeaders);
    response.end("ok");
  });
  let yaml: string;

  beforeAll(async () => {
    await new Promise<void>((resolve) => backend.listen(0, "127.0.0.1", resolve));
    // The request that waits for nginx to start has no route, so it is not decided. There is no service: every decision is made without the store and has the same headers.
    yaml = `
log: { level: error }
apps: { app: { guaranteed: 100, burst: 1000, on_store_failure: open } }
upstreams: { backend: { targets: ["127.0.0.1:${(backend.address() as AddressInfo).port}"] } }
routes: [{ path: /app, upstream: backend }]
`;
  });
  afterAll(() => backend.close());

  async function withFreshWorker<T>(work: (pool: Pool) => Promise<T>): Promise<T> {
    const nginx: NginxProcess = await startNginx(yaml, { services: ["127.0.0.1:9"], workers: 1 });
    const pool = new Pool(nginx.url, { connections: 1 });
    try {
      return await work(pool);
    } finally {
      await pool.close();
      await nginx.stop();
    }
  }

  it("with the first request to a worker changes neither later responses nor what backends receive", async () => {
    const { headers } = await withFreshWorker((pool) => send(pool, "app"));
    const predicted = NAMES.flatMap((name) => [name, headers[name]!]);
    received.length = 0;
    const answers = await withFreshWorker(async (pool) => {
      const first = await send(pool, "app", predicted);
      const later: Answer[] = [];
      for (let i = 0; i < 20; i++) later.push(await send(pool, "app"));
      return [first, ...later];
    });
    for (const answer of answers) {
      expect(answer.status).toBe(200);
      expect(rateLimitNames(answer.names)).toEqual(NAMES);
      expect(answer.headers["X-RateLimit-Limit"]).toBe("1000");
    }
    expect(answers[0]!.headers.RateLimit).toBe(headers.RateLimit);
    // What the client sent itself is passed on like any other header.
    expect(received).toHaveLength(21);
    expect(rateLimitNames(received[0]!.filter((_, i) => i % 2 === 0))).toEqual(NAMES);
    for (const rawHeaders of received.slice(1))
      expect(rawHeaders.filter((text) => /ratelimit/i.test(text))).toEqual([]);
  });
});
