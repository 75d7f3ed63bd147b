/** Decisions of the generated filter on a real Envoy: refusals, headers, costs, and the number of calls to the service. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { fetchReply, json } from "../../../support/http-client.js";
import { waitFor } from "../../../support/wait-for.js";
import { type LuaWorld, startLuaWorld } from "./lua-world.js";

const BY_REQUEST = "profile: { based_on: iops, bandwidth: 0 }";

describeEnvoy("Envoy's generated filter", () => {
  let world: LuaWorld;
  const ask = (app: string, path = "/", headers: Record<string, string> = {}, method = "GET") =>
    fetchReply(world.envoy.port, path, { method, headers: { "x-app-id": app, ...headers } });

  beforeAll(async () => {
    world = await startLuaWorld(
      `default: { guaranteed: 1000 }, ample: { guaranteed: 100000, burst: 100000, ${BY_REQUEST} }, ` +
        `few: { guaranteed: 1, burst: 3, ${BY_REQUEST} }, trial: { guaranteed: 1, burst: 2, dry_run: true, ${BY_REQUEST} }, ` +
        "sized: { guaranteed: 100000, burst: 100000 }, other: { guaranteed: 5000, burst: 7000 }",
      "identity: { trusted_hops: [127.0.0.0/8], api_keys: { ample: [a-key-of-the-ample] } }",
    );
    // The first request makes the filter sync for the first time.
    await waitFor("the first sync of the filter", async () => (await ask("default")).status === 200);
  });
  afterAll(() => world?.stop());

  it("replaces rate limit headers of the backend by those of the decision", async () => {
    const { status, headers } = await ask("ample");
    expect(status).toBe(200);
    expect(headers).toMatchObject({ "x-ratelimit-cost": "1", "x-ratelimit-limit": "100000" });
    expect(headers["ratelimit-policy"]).toBe('"ample";q=100000;w=1');
    expect(headers.ratelimit).toMatch(/^"ample";r=\d+;t=\d+$/);
  });

  it("refuses requests over the limit like the Node gateway, and decides most further ones from the cached refusal", async () => {
    const replies = [];
    for (let i = 0; i < 5; i++) replies.push(await ask("few"));
    const passed = replies.filter(({ status }) => status === 200).length;
    expect(passed).toBeGreaterThanOrEqual(3);
    expect(passed).toBeLessThanOrEqual(4);
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
    const before = await world.calls();
    for (let i = 0; i < 20; i++) await ask("few");
    const after = await world.calls();
    expect(after.checks + after.syncs - before.checks - before.syncs).toBeLessThanOrEqual(4);
  });

  it("admits all requests of an app on a dry run, and sends the decision in X-RateLimit-Dry-Run", async () => {
    const replies = [];
    for (let i = 0; i < 8; i++) replies.push(await ask("trial"));
    expect(replies.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(replies[0]!.headers["x-ratelimit-dry-run"]).toBe("pass");
    expect(replies.at(-1)!.headers["x-ratelimit-dry-run"]).toBe("would-refuse; reason=quota_exhausted");
  });

  it("decides more than 95 % of requests without a call to the service", async () => {
    for (let i = 0; i < 300; i++) await ask("ample");
    const before = await world.calls();
    for (let i = 0; i < 1000; i++) expect((await ask("ample")).status).toBe(200);
    const after = await world.calls();
    expect(after.checks + after.syncs - before.checks - before.syncs).toBeLessThan(50);
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
    // An upload that waited for a sync is settled by the service, and its size is not learned.
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
