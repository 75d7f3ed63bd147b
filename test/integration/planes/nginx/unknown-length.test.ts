/** nginx reads a chunked request body before it decides, so that the decision is about its actual length. */
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createQuota, type Quota } from "../../../../src/quota/quota.js";
import { createRedisStore } from "../../../../src/store/redis/redis-store.js";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { type Backend, startBackend } from "../../../support/http-backend.js";
import { fetchReply, json, open, replyTo } from "../../../support/http-client.js";
import { type NginxProcess, startNginx } from "../../../support/nginx-process.js";
import { startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";

const QUANTUM = 65_536;
const BURST = 20;
const PUT = 5;

const seen = { requests: 0, bytes: 0, lengths: [] as (string | undefined)[] };
const endings: (() => unknown)[] = [];
let backend: Backend;
let service: GatewayProcess;
let nginx: NginxProcess;
let quota: Quota;

beforeAll(async () => {
  const redis = await startRedis();
  endings.push(() => redis.stop());
  backend = await startBackend((request, response) => {
    seen.requests++;
    seen.lengths.push(request.headers["content-length"]);
    request.on("data", (chunk: Buffer) => (seen.bytes += chunk.length));
    request.on("end", () => response.end());
  });
  endings.push(() => backend.stop());
  const app = (more: string) => `{ guaranteed: 0.001, burst: ${BURST}, on_store_failure: closed, ${more} }`;
  const yaml = `
store: ${redis.url}
workers: 1
cluster: { id: lengths }
lease: { report_interval_ms: 100 }
log: { level: warn }
apps:
  above: ${app("unknown_length: delay")}
  below: ${app("unknown_length: cut")}
  empty: ${app("unknown_length: delay")}
  later: ${app("unknown_length: charge")}
  trial: ${app("unknown_length: cut, dry_run: true")}
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
request_limits: { body_bytes: ${100 * QUANTUM} }
`;
  service = await startGateway(yaml);
  endings.push(() => service.stop());
  nginx = await startNginx(yaml, { services: [service.controlUrl.replace("http://", "")], node: "nginx", workers: 1 });
  endings.push(() => nginx.stop());
  const store = createRedisStore(redis.url);
  endings.push(() => store.close());
  quota = createQuota(store, { id: "lengths", capacity: 1_000_000, rate: 500_000, nodeTtlMs: 10_000 });
});

afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

function* chunks(size: number): Generator<Buffer> {
  for (let sent = 0; sent < size; sent += 5_000) yield Buffer.alloc(Math.min(5_000, size - sent), "x");
}

/** On a busy machine the store can seem slow at first; such a request takes no tokens and is repeated. */
const upload = (app: string, size: number) =>
  waitFor("a decision with the store", async () => {
    const reply = await uploadOnce(app, size);
    return reply.status !== 503 && reply;
  });

async function uploadOnce(app: string, size: number) {
  Object.assign(seen, { requests: 0, bytes: 0, lengths: [] });
  const request = open(nginx.port, { method: "PUT", headers: { "X-App-Id": app } });
  request.on("error", () => undefined);
  const reply = replyTo(request);
  Readable.from(chunks(size)).pipe(request);
  return reply;
}

/** What the app has spent, when nginx has reported it. */
async function spentIs(app: string, tokens: number): Promise<void> {
  await waitFor(`${app} to be charged ${tokens}`, async () => {
    const limits = { id: app, guaranteed: 0.001, burst: BURST, priority: 2, borrow: false };
    return (await quota.inspect(limits)).spent === tokens;
  });
}

describe("a chunked upload through nginx", () => {
  it("whose cost exceeds the burst is refused before it reaches the backend", async () => {
    const reply = await upload("above", 30 * QUANTUM);
    expect(reply.status).toBe(429);
    expect(json(reply)).toMatchObject({ reason: "cost_exceeds_capacity", app_id: "above" });
    expect(reply.headers["x-ratelimit-cost"]).toBe(String(PUT + 30));
    expect(seen.requests).toBe(0);
    expect((await fetchReply(nginx.port, "/", { headers: { "X-App-Id": "above" } })).status).toBe(200);
    await spentIs("above", 1);
  });

  it("within the burst reaches the backend and is charged its exact size, without the framing of the chunks", async () => {
    const reply = await upload("below", 10 * QUANTUM);
    expect(reply.status).toBe(200);
    expect(reply.headers["x-ratelimit-cost"]).toBe(String(PUT + 10));
    expect(seen).toEqual({ requests: 1, bytes: 10 * QUANTUM, lengths: [String(10 * QUANTUM)] });
    await spentIs("below", PUT + 10);
  });

  it("is not read while the app is refused anyway", async () => {
    expect((await upload("empty", 15 * QUANTUM)).status).toBe(200);
    const headers = { "X-App-Id": "empty" };
    await waitFor("a cached refusal", async () => (await fetchReply(nginx.port, "/", { headers })).status === 429);
    // The body never ends: a decision that waited for it would never be made.
    const request = open(nginx.port, { method: "PUT", headers });
    request.on("error", () => undefined);
    request.write("x");
    const [response] = await once(request, "response");
    expect(response.statusCode).toBe(429);
    request.destroy();
  });

  it.each(["later", "trial"])("of the app %s passes and is charged at the end", async (app) => {
    const reply = await upload(app, 30 * QUANTUM);
    expect(reply.status).toBe(200);
    expect(seen.bytes).toBe(30 * QUANTUM);
    await spentIs(app, PUT + 30);
  });

  it("above request_limits.body_bytes gets 413, costs nothing and leaves nothing behind", async () => {
    const reply = await upload("below", 101 * QUANTUM);
    expect(reply.status).toBe(413);
    expect(seen.requests).toBe(0);
    await spentIs("below", PUT + 10);
    await waitFor("nginx to delete the file of the body", () => readdirSync(`${nginx.dir}/client_body`).length === 0);
  });
});
