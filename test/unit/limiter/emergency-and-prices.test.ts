/** Emergencies shed by priority, borrowing lends to who is out, and what a response weighs is charged afterwards. */
import { describe, expect, it } from "vitest";
import type { Decision } from "../../../src/limiter/limiter.js";
import { createSimulation, limitedApp } from "../../support/simulation.js";

describe("an emergency", () => {
  it("reaches every node in under a second, and leaves 100, 50, 10 and 0 percent", async () => {
    const apps = [0, 1, 2, 3].map((priority) =>
      limitedApp({ id: `p${priority}`, guaranteed: 400, burst: 400, priority }),
    );
    const simulation = createSimulation(apps);
    const nodes = ["n1", "n2", "n3"].map((name) => simulation.addNode(name));
    for (const node of nodes) for (const app of apps) simulation.load(node, app.id, 400, 30_000);
    await simulation.clock.advance(5_000);
    await simulation.quota.emergencyOn(0, "test", "test", "op");
    await simulation.clock.advance(1_000);
    expect(nodes.map((node) => node.limiter.stats().emergency)).toEqual([true, true, true]);
    await simulation.clock.advance(10_000);
    const admitted = apps.map(
      ({ id }) =>
        nodes
          .flatMap((node) => node.decisions)
          .filter(({ at, decision }) => at >= 6_000 && at < 16_000 && decision.app === id && decision.allowed).length,
    );
    const shares = admitted.map((count) => count / 4000);
    [1, 0.5, 0.1, 0].forEach((wanted, i) => {
      expect(Math.abs(shares[i]! - wanted), `priority ${i}: ${shares[i]}`).toBeLessThanOrEqual(
        0.05 * Math.max(wanted, 0.2),
      );
    });
    await simulation.quota.emergencyOff("op-2");
    await simulation.clock.advance(2_000);
    expect(nodes.every((node) => !node.limiter.stats().emergency)).toBe(true);
  });

  it("cuts existing leases", async () => {
    const simulation = createSimulation([limitedApp({ id: "app", guaranteed: 1000, burst: 5000, priority: 2 })]);
    const node = simulation.addNode("n1");
    simulation.load(node, "app", 10, 200);
    await simulation.clock.advance(150);
    const before = node.limiter.balances()[0]!.balance;
    node.limiter.setEmergency(true);
    expect(node.limiter.balances()[0]!.balance).toBe(Math.floor(before * 0.1));
  });
});

describe("borrowing", () => {
  it("an idle cluster lends half of the guaranteed rate to an app without tokens, once", async () => {
    const app = limitedApp({ id: "app", guaranteed: 100, burst: 100, borrow: true });
    const simulation = createSimulation([app]);
    const node = simulation.addNode("n1");
    simulation.load(node, "app", 1000, 10_000);
    await simulation.clock.advance(10_000);
    expect(node.admitted()).toBeLessThanOrEqual(100 + 100 * 10 + 50);
    expect(node.admitted()).toBeGreaterThan(100 + 100 * 10);
    expect((await simulation.quota.inspect(app)).debt).toBeGreaterThan(0);
  });
});

describe("a response of one megabyte to a request with a small estimate", () => {
  it("is charged when it ends and reduces what later requests can use", async () => {
    const simulation = createSimulation([limitedApp({ id: "app", guaranteed: 10, burst: 100 })]);
    const node = simulation.addNode("n1");
    const decision = await simulation.during(node.limiter.check("app", "GET", 0));
    expect(decision).toMatchObject({ allowed: true, cost: 1 });
    node.limiter.settle(decision, 0, 5 * 1024 * 1024);
    const codes: string[] = [];
    for (let i = 0; i < 20; i++) {
      void Promise.resolve(node.limiter.check("app", "GET", 0)).then((made) => codes.push(made.code));
      await simulation.clock.advance(20);
    }
    // 80 quanta were charged, and the estimate has learned: two such requests do not fit into a burst of 100.
    expect(codes).toContain("quota_exhausted");
    await simulation.clock.advance(2_000);
    await simulation.during(node.limiter.close());
    expect(
      (await simulation.quota.inspect(limitedApp({ id: "app", guaranteed: 10, burst: 100 }))).spent,
    ).toBeGreaterThanOrEqual(81);
  });
});

describe("requests that cannot be priced or placed", () => {
  it("are refused with their code and take no tokens", async () => {
    const simulation = createSimulation([limitedApp({ id: "default" }), limitedApp({ id: "known" })]);
    const node = simulation.addNode("n1");
    const strict = simulation.addNode("n2", { unknownApps: "reject" });
    const now = (made: Decision | Promise<Decision>) => made as Decision;
    expect(now(node.limiter.check("known", "PUT", Number.NaN))).toMatchObject({
      code: "invalid_argument",
      allowed: false,
    });
    expect(now(node.limiter.check("known", "PUT", -5))).toMatchObject({ code: "invalid_argument" });
    expect(now(strict.limiter.check("stranger", "GET", 0))).toMatchObject({ code: "unknown_app", app: "" });
    const shared = await simulation.during(node.limiter.check("stranger", "GET", 0));
    expect(shared).toMatchObject({ allowed: true, app: "default" });
    const huge = await simulation.during(node.limiter.check("known", "PUT", 2 ** 40));
    expect(huge).toMatchObject({ code: "cost_exceeds_capacity", retryAfterMs: 0 });
  });
});
