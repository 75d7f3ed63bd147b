/** A dry run decides, counts and says what it would do, and refuses nothing but what makes no sense. */

import { describe, expect, it } from "vitest";
import { ALL_HEADERS } from "../../../src/core/response-headers.js";
import { rateLimitHeaders } from "../../../src/limiter/library/results.js";
import type { Decision } from "../../../src/limiter/limiter.js";
import type { Arrival } from "../../../src/planes/node/http/request-admission.js";
import { createRateLimitAdmission } from "../../../src/planes/node/http/request-admission.js";
import { createSimulation, limitedApp, type SimulatedNode } from "../../support/simulation.js";

const tiny = { id: "app", guaranteed: 10, burst: 10 };
const dry = limitedApp({ ...tiny, dryRun: true });

const spentBy = (node: SimulatedNode) =>
  node.decisions.filter(({ decision }) => decision.code === "ok").reduce((sum, { decision }) => sum + decision.cost, 0);

describe("an app on a dry run", () => {
  it("admits every request far above its limit, with the reason for those beyond it", async () => {
    const seen: Decision[] = [];
    const decided = (decision: Decision) => void seen.push(decision);
    const simulation = createSimulation([dry], {}, { observer: { decided } });
    const node = simulation.addNode("n1");
    simulation.load(node, "app", 200, 5_000);
    await simulation.clock.advance(6_000);
    const beyond = node.decisions.filter(({ decision }) => decision.code !== "ok").map(({ decision }) => decision);
    expect(node.decisions.every(({ decision }) => decision.allowed && decision.dryRun)).toBe(true);
    expect(new Set(beyond.map(({ code }) => code))).toEqual(new Set(["quota_exhausted"]));
    expect(seen.filter(({ code }) => code !== "ok")).toEqual(beyond);
    expect(node.limiter.stats()).toMatchObject({ refused: 0, dryRunRefused: beyond.length });
    // As many as the limit would have let pass, and no more.
    expect(spentBy(node)).toBeLessThanOrEqual(10 + 10 * 5);
    expect(beyond.length).toBeGreaterThan(800);
  });

  it("takes and settles no tokens for requests that it would have refused", async () => {
    const simulation = createSimulation([dry]);
    const node = simulation.addNode("n1");
    simulation.load(node, "app", 200, 2_000);
    await simulation.clock.advance(2_000);
    const refused = node.decisions.find(({ decision }) => decision.code !== "ok")!.decision;
    for (let i = 0; i < 50; i++) node.limiter.settle(refused, 0, 64 * 1024 * 1024);
    await simulation.during(node.limiter.close());
    const books = await simulation.quota.inspect(dry);
    expect(books.spent).toBe(spentBy(node));
    expect(books.granted - books.returned).toBe(books.spent);
  });

  it("learns response sizes from admitted requests for the next estimate", async () => {
    const simulation = createSimulation([limitedApp({ ...tiny, guaranteed: 0, burst: 20, dryRun: true })]);
    const node = simulation.addNode("n1");
    for (let i = 0; i < 20; i++) await simulation.during(node.limiter.check("app", "GET", 0));
    const beyond = await simulation.during(node.limiter.check("app", "GET", 0));
    expect(beyond).toMatchObject({ allowed: true, code: "quota_exhausted", cost: 1 });
    node.limiter.settle(beyond, 0, 1024 * 1024);
    expect((await simulation.during(node.limiter.check("app", "GET", 0))).cost).toBe(9);
  });

  it.each(["refusing", "hanging"] as const)(
    "admits while the store is %s, with the code of the refusal",
    async (mode) => {
      const simulation = createSimulation([limitedApp({ ...tiny, onStoreFailure: "closed", dryRun: true })]);
      const node = simulation.addNode("n1");
      simulation.store.mode = mode;
      simulation.load(node, "app", 100, 5_000);
      await simulation.clock.advance(8_000);
      expect(node.decisions.length).toBeGreaterThan(450);
      for (const { decision } of node.decisions) {
        expect(decision).toMatchObject({ allowed: true, code: "store_unavailable" });
        expect(rateLimitHeaders(decision)).toMatchObject({
          "X-RateLimit-Dry-Run": "would-refuse; reason=store_unavailable",
        });
      }
    },
  );

  it("still refuses an invalid length, and does not affect other apps", async () => {
    const simulation = createSimulation([dry, limitedApp({ ...tiny, id: "strict", burst: 1 })]);
    const node = simulation.addNode("n1", { unknownApps: "reject" });
    expect(node.limiter.check("app", "PUT", Number.NaN)).toMatchObject({ allowed: false, code: "invalid_argument" });
    expect(node.limiter.check("stranger", "GET", 0)).toMatchObject({ allowed: false, code: "unknown_app" });
    await simulation.during(node.limiter.check("strict", "GET", 0));
    const refused = await simulation.during(node.limiter.check("strict", "GET", 0));
    expect(refused).toMatchObject({ allowed: false, code: "quota_exhausted", dryRun: false });
  });
});

describe("the headers", () => {
  const made: Decision = {
    ...{ allowed: true, code: "ok", dryRun: true, app: "app", method: "GET", cost: 1, balance: 3 },
    ...{ remaining: 9, limit: 10, rate: 10, retryAfterMs: 0, source: "local" },
  };

  it("of a dry run show whether the request would have been refused", () => {
    expect(rateLimitHeaders(made)).toMatchObject({ "X-RateLimit-Dry-Run": "pass", "X-RateLimit-Remaining": "9" });
    const beyond = rateLimitHeaders({ ...made, code: "quota_exhausted", retryAfterMs: 4_000 });
    expect(beyond).toMatchObject({ "X-RateLimit-Dry-Run": "would-refuse; reason=quota_exhausted" });
    expect(beyond).not.toHaveProperty("Retry-After");
  });

  it("of other apps do not contain it", () => {
    expect(rateLimitHeaders({ ...made, dryRun: false })).not.toHaveProperty("X-RateLimit-Dry-Run");
    const refused = rateLimitHeaders({ ...made, allowed: false, code: "invalid_argument", retryAfterMs: 0 });
    expect(refused).not.toHaveProperty("X-RateLimit-Dry-Run");
  });
});

describe("the admission of the gateway", () => {
  const arrival = (app: string): Arrival => ({
    ...{ method: "GET", remoteAddress: "127.0.0.1", contentLength: 0 },
    headerValues: (name) => (name === "x-app-id" && app !== "" ? [app] : []),
  });
  const identity = {
    ...{ appHeader: "X-App-Id", userHeader: "X-User-Id", apiKeyHeader: "X-API-Key", apiKeys: {} },
    rules: { refuseUntrustedHeaders: false, refuseUnknownApps: true },
    forwardIdentity: true,
    headers: ALL_HEADERS,
    isTrustedHop: () => true,
    isConfigured: (id: string) => id === "app",
  };

  it("admits a dry run with its header, and still refuses an invalid identity", async () => {
    const simulation = createSimulation([limitedApp({ ...tiny, burst: 1, dryRun: true })]);
    const { limiter } = simulation.addNode("n1");
    const admission = createRateLimitAdmission({ ...identity, limiter });
    await simulation.during(admission.admit(arrival("app")));
    expect(await simulation.during(admission.admit(arrival("app")))).toMatchObject({
      allowed: true,
      status: 200,
      headers: { "X-RateLimit-Dry-Run": "would-refuse; reason=quota_exhausted" },
    });
    expect(admission.admit(arrival("a b"))).toMatchObject({ allowed: false, status: 400 });
  });
});
