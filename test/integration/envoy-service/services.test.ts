/** Two services on one Redis, called over their listeners for Envoy: shared limits are never exceeded. */
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type GatewayProcess, PLANE_TOKEN, startGateway } from "../../support/gateway-process.js";
import { readPage } from "../../support/metrics-page.js";
import { freePort } from "../../support/ports.js";
import { connectRateLimitClient, type RateLimitClient, type RateLimitReply } from "../../support/rate-limit-client.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { waitFor } from "../../support/wait-for.js";

const AUTHORIZATION = { authorization: `Bearer ${PLANE_TOKEN}` };
const BURST = 300;

interface Service {
  gateway: GatewayProcess;
  client: RateLimitClient;
  url: string;
}

let redis: RedisServer;
let services: Service[] = [];

async function startService(node: string): Promise<Service> {
  const port = await freePort();
  const gateway = await startGateway(`
node_id: ${node}
workers: 1
store: ${redis.url}
envoy: { listen: "127.0.0.1:${port}", response_headers: true }
log: { level: warn }
apps:
  shared: { guaranteed: 0.001, burst: ${BURST}, on_store_failure: closed }
  closed: { guaranteed: 1000, burst: 1000, on_store_failure: closed }
  open: { guaranteed: 1000, burst: 1000, on_store_failure: open }
  few: { guaranteed: 0.001, burst: 2 }
  twice: { guaranteed: 200, burst: 400 }
upstreams: { none: { targets: ["127.0.0.1:9"] } }
routes: [{ path: /, upstream: none }]
`);
  return { gateway, client: connectRateLimitClient(`127.0.0.1:${port}`), url: `http://127.0.0.1:${port}` };
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

function ask({ client }: Service, app: string, hits = 1): Promise<RateLimitReply> {
  const descriptors = [{ entries: [{ key: "app_id", value: app }] }];
  return client.ask({ domain: "tollgate", descriptors, hits_addend: hits }, AUTHORIZATION);
}

/** On a busy machine the store may be too slow: the call is then UNAVAILABLE. */
async function isAdmitted(asked: Promise<RateLimitReply>): Promise<boolean> {
  const reply = await asked.catch(({ code }: { code: number }) => expect(code).toBe(status.UNAVAILABLE));
  return reply?.overall_code === "OK";
}

function post({ url }: Service, path: string, body: string): Promise<Response> {
  return fetch(`${url}${path}`, { method: "POST", body, headers: AUTHORIZATION });
}

const jsonOf = (app: string, hits: number) =>
  JSON.stringify({
    domain: "tollgate",
    hitsAddend: hits,
    descriptors: [{ entries: [{ key: "app_id", value: app }] }],
  });

describe("a shared limit", () => {
  it("admits exactly its burst over gRPC and JSON in parallel", async () => {
    let admitted = 0;
    async function round(): Promise<void> {
      const calls = services.flatMap((service) => [
        ...Array.from({ length: 100 }, () => isAdmitted(ask(service, "shared"))),
        ...Array.from({ length: 25 }, async () => (await post(service, "/json", jsonOf("shared", 1))).status === 200),
      ]);
      admitted += (await Promise.all(calls)).filter(Boolean).length;
    }
    // Idle tokens of one service are returned after a while.
    await waitFor("the whole burst to be admitted", async () => {
      await round();
      return admitted >= BURST;
    });
    await round();
    expect(admitted).toBe(BURST);
  });

  it("reports over limit the same way over gRPC and JSON", async () => {
    const [service] = services as [Service];
    await waitFor("the limit to be reached", async () => (await ask(service, "few")).overall_code === "OVER_LIMIT");
    const json = await post(service, "/json", jsonOf("few", 1));
    expect(json.status).toBe(429);
    expect(await json.json()).toMatchObject({
      overallCode: "OVER_LIMIT",
      statuses: [{ code: "OVER_LIMIT", currentLimit: { name: "few", requestsPerUnit: 2592, unit: "MONTH" } }],
    });
  });

  it("refuses a cost above its capacity and takes nothing", async () => {
    const [service] = services as [Service];
    const reply = await ask(service, "open", 0xffff_ffff);
    expect(reply.overall_code).toBe("OVER_LIMIT");
    expect(JSON.parse(reply.raw_body!.toString())).toMatchObject({ reason: "cost_exceeds_capacity", retry_after: 0 });
    expect((await ask(service, "open")).overall_code).toBe("OK");
  });

  it("is announced with its rate, and in headers like those of the gateway", async () => {
    const [service] = services as [Service];
    const reply = await ask(service, "twice");
    expect(reply.statuses?.[0]?.current_limit).toEqual({ name: "twice", requests_per_unit: 200, unit: "SECOND" });
    const own = Object.fromEntries(reply.response_headers_to_add!.map(({ key, value }) => [key!.toLowerCase(), value]));
    const { headers } = await fetch(service.gateway.url, { headers: { "x-app-id": "twice" } });
    for (const name of ["ratelimit-policy", "x-ratelimit-limit"]) expect(own[name], name).toBe(headers.get(name));
    expect(own["ratelimit-policy"]).toBe('"twice";q=400;w=2;qu="tokens"');
  });

  it("is counted in the metrics", async () => {
    const [service] = services as [Service];
    await ask(service, "few");
    const page = readPage(await (await fetch(`${service.gateway.controlUrl}/metrics`)).text());
    expect(page.sum("ratelimit_requests_rejected_total", { app_id: "few" })).toBeGreaterThan(0);
  });
});

describe("an invalid request", () => {
  it.each([
    ["/json", "{", "the body must be JSON"],
    ["/json", "[]", "the body must be an object"],
    ["/json", '{"domain": "a", "descriptors": [], "more": 1}', "domain, descriptors, hits_addend only"],
    [
      "/json",
      '{"domain": "a", "descriptors": [{"entries": [{"key": 1}]}]}',
      "descriptors[0].entries[0].key must be a text",
    ],
    ["/json", '{"domain": "a", "hits_addend": 4294967296, "descriptors": []}', "hits_addend must be a whole number"],
  ])("%s with %j is rejected with the field and the reason", async (path, body, detail) => {
    const answer = await post(services[0]!, path, body);
    expect(answer.status).toBe(400);
    expect(((await answer.json()) as { detail: string }).detail).toContain(detail);
  });

  it("without the token is UNAUTHENTICATED", async () => {
    const asked = services[0]!.client.ask({ domain: "tollgate", descriptors: [{ entries: [{ key: "a" }] }] });
    await expect(asked).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
  });
});

describe("an unavailable store", () => {
  it("makes calls of closed apps UNAVAILABLE, admits calls of open apps, and is used again when it is back", async () => {
    const [service] = services as [Service];
    await redis.kill();
    await waitFor("the closed app to be UNAVAILABLE", async () => {
      const asked = await ask(service, "closed", 100).catch(({ code }: { code: number }) => code);
      return asked === status.UNAVAILABLE;
    });
    expect((await post(service, "/json", jsonOf("closed", 100))).status).toBe(503);
    expect((await ask(service, "open")).overall_code).toBe("OK");
    await redis.restart();
    await waitFor("the closed app to be decided", async () => {
      await ask(service, "closed", 100);
      return true;
    });
  });
});

describe("a service that stops", () => {
  it("finishes running calls and exits", async () => {
    const [, two] = services as [Service, Service];
    const calls = Promise.all(Array.from({ length: 50 }, () => ask(two, "open")));
    await calls;
    await two.gateway.stop();
    expect(await two.gateway.ended).toBe(0);
    expect(two.gateway.output()).not.toContain("disconnected Envoys");
  });
});
