/** Decisions of the dynamic module in a real Envoy: refusals, headers, costs, and the number of calls to the service. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { fetchReply, json } from "../../../support/http-client.js";
import { waitFor } from "../../../support/wait-for.js";
import { type ModuleWorld, startModuleWorld } from "./module-world.js";

const BY_REQUEST = "profile: { based_on: iops, bandwidth: 0 }";
const CLOSED = `on_store_failure: closed, ${BY_REQUEST}`;

describeEnvoy("Envoy with the dynamic module", () => {
  let world: ModuleWorld;
  const ask = (app: string, path = "/", headers: Record<string, string> = {}, method = "GET") =>
    fetchReply(world.envoy.port, path, { method, headers: { "x-app-id": app, ...headers } });

  /** On a busy machine the store can seem slow: then the request is repeated. */
  async function decided(app: string): ReturnType<typeof ask> {
    const reply = await ask(app);
    const isSlow = reply.status === 503 || /store_unavailable/.test(String(reply.headers["x-ratelimit-dry-run"]));
    return isSlow ? decided(app) : reply;
  }

  beforeAll(async () => {
    world = await startModuleWorld(
      `default: { guaranteed: 1000 }, ample: { guaranteed: 100000, burst: 100000, ${BY_REQUEST} }, ` +
        `few: { guaranteed: 1, burst: 3, ${CLOSED} }, trial: { guaranteed: 1, burst: 2, dry_run: true, ${CLOSED} }, ` +
        "sized: { guaranteed: 100000, burst: 100000 }, other: { guaranteed: 5000, burst: 7000 }",
      "identity: { trusted_hops: [127.0.0.0/8], api_keys: { ample: [a-key-of-the-ample] } }",
    );
    await waitFor("the first sync", async () => (await ask("default")).status === 200);
  });
  afterAll(() => world?.stop());

  it("replaces rate limit headers of the backend by those of the decision", async () => {
    const { status, headers } = await ask("ample");
    expect(status).toBe(200);
    expect(headers).toMatchObject({ "x-ratelimit-cost": "1", "x-ratelimit-limit": "100000" });
    expect(headers["ratelimit-policy"]).toBe('"ample";q=100000;w=1;qu="tokens"');
    expect(headers.ratelimit).toMatch(/^"ample";r=\d+;t=\d+$/);
  });

  it("refuses requests over the limit like the Node gateway", async () => {
    const replies: Awaited<ReturnType<typeof ask>>[] = [];
    while (replies.at(-1)?.status !== 429) replies.push(await decided("few"));
    // The first three, and what the bucket gains meanwhile.
    expect(replies.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(3);
    const refused = replies.at(-1)!;
    expect(refused.status).toBe(429);
    expect(json(refused)).toEqual({
      ...{ error: "rate_limit_exceeded", reason: "quota_exhausted", app_id: "few" },
      ...{ retry_after: 1, remaining: 0, limit: 3 },
    });
    expect(refused.headers).toMatchObject({
      "retry-after": "1",
      "x-ratelimit-cost": "1",
      "x-ratelimit-remaining": "0",
    });
  });

  it("admits all requests of an app on a dry run, and sends the decision in X-RateLimit-Dry-Run", async () => {
    const seen: string[] = [];
    while (seen.at(-1)?.startsWith("would-refuse") !== true) {
      const { status, headers } = await decided("trial");
      expect(status).toBe(200);
      seen.push(String(headers["x-ratelimit-dry-run"]));
    }
    expect([seen[0], seen.at(-1)]).toEqual(["pass", "would-refuse; reason=quota_exhausted"]);
  });

  it("decides more than 95 % of requests without a call to the service", async () => {
    for (let i = 0; i < 300; i++) await ask("ample");
    const before = await world.calls();
    const started = performance.now();
    for (let i = 0; i < 1000; i++) expect((await ask("ample")).status).toBe(200);
    // Besides, the node asks for recalls and emergencies ten times a second.
    const polls = (performance.now() - started) / 100;
    expect((await world.calls()) - before).toBeLessThan(50 + polls);
  });

  it("estimates the cost from the sizes of earlier responses, with or without Content-Length", async () => {
    const cost = async (method: string) => (await ask("sized", "/", {}, method)).headers["x-ratelimit-cost"];
    expect(await cost("GET")).toBe("1");
    await ask("other", "/chunked?bytes=300000");
    // The first size counts half.
    expect((await ask("other")).headers["x-ratelimit-cost"]).toBe("4");
    await ask("sized", "/?bytes=70000", {}, "DELETE");
    expect(await cost("DELETE")).toBe("3");
    // These responses have no body, whatever their Content-Length is.
    await ask("sized", "/?bytes=900000", {}, "HEAD");
    expect(await cost("HEAD")).toBe("1");
    await ask("sized", "/unchanged", {}, "OPTIONS");
    expect(await cost("OPTIONS")).toBe("1");
  });

  it("charges a body without Content-Length for its actual size", async () => {
    const upload = () =>
      fetchReply(world.envoy.port, "/", {
        method: "PUT",
        headers: { "x-app-id": "sized", "transfer-encoding": "chunked" },
        body: "u".repeat(200_000),
      });
    expect((await upload()).headers["x-ratelimit-cost"]).toBe("5");
    await waitFor("the size to be learned", async () => (await upload()).headers["x-ratelimit-cost"] === "8");
  });

  it("distinguishes two requests with the same x-request-id", async () => {
    const same = { "x-request-id": "of-a-client" };
    const first = ask("ample", "/held", same);
    await waitFor("the first to arrive", () => world.held.length === 1);
    const second = ask("other", "/held", same);
    await waitFor("the second to arrive", () => world.held.length === 2);
    expect((await ask("a{b}", "/", same)).status).toBe(400);
    for (const response of world.held.splice(0).reverse()) response.end("x");
    expect((await second).headers["x-ratelimit-limit"]).toBe("7000");
    expect((await first).headers["x-ratelimit-limit"]).toBe("100000");
  });

  it("uses the client address that Envoy determines, and ignores address headers of the client", async () => {
    const claims = { "x-envoy-external-address": "203.0.113.7", "x-forwarded-for": "203.0.113.7" };
    const { headers } = await ask("other", "/", claims);
    expect(headers["x-ratelimit-limit"]).toBe("7000");
    expect(JSON.parse(String(headers["x-seen"]))).toMatchObject({ "x-envoy-external-address": "127.0.0.1" });
  });

  it("identifies apps by their API keys", async () => {
    const key = await fetchReply(world.envoy.port, "/", { headers: { "x-api-key": "a-key-of-the-ample" } });
    expect(key.headers["x-ratelimit-limit"]).toBe("100000");
    const wrong = await fetchReply(world.envoy.port, "/", { headers: { "x-api-key": "a-key-of-nobody-at-all" } });
    expect(wrong.headers["ratelimit-policy"]).toContain('"default"');
  });
});
