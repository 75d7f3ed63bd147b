/** A store that is late, or answers just too late: never taken for a limit, and nothing is charged twice. */
import { describe, expect, it } from "vitest";
import { iopsProfile } from "../../../src/core/cost.js";
import { createSimulation, limitedApp } from "../../support/simulation.js";

const ample = limitedApp({
  ...{ id: "ample", guaranteed: 5000, burst: 5000, onStoreFailure: "open" as const },
  profile: { ...iopsProfile, bandwidth: 0 },
});

describe("a store that becomes slow just when a quiet app becomes busy", () => {
  const cases = [1, 2, 3].flatMap((before) =>
    [300, 600, 1000].flatMap((after) => [300, 400].map((latencyMs) => ({ before, after, latencyMs }))),
  );

  it.each(cases)(
    "$before/s, then $after/s at $latencyMs ms: no one is refused as if the quota were gone",
    async ({ before, after, latencyMs }) => {
      const simulation = createSimulation([ample], {}, { failOpenTokens: 10_000 });
      const node = simulation.addNode("n1");
      simulation.load(node, "ample", before, 3_000);
      await simulation.clock.advance(3_000);
      simulation.store.latencyMs = latencyMs;
      simulation.load(node, "ample", after, 7_000);
      await simulation.clock.advance(6_000);
      expect(node.decisions.length).toBeGreaterThan(after * 3.9);
      expect(new Set(node.decisions.map(({ decision }) => decision.code))).toEqual(new Set(["ok"]));
      // The burst of the lease's first seconds was paid without the store: that is what left others unpaid.
      expect(node.decisions.some(({ decision }) => decision.source === "without_store")).toBe(true);
    },
  );
});

describe("an app with on_store_failure closed and an empty lease, when requests may not wait", () => {
  const strict = limitedApp({ ...ample, id: "strict", onStoreFailure: "closed" as const });

  it("gets tokens from a store that stays slow", async () => {
    const simulation = createSimulation([ample, strict]);
    const node = simulation.addNode("n1");
    simulation.store.latencyMs = 150;
    simulation.load(node, "ample", 100, 10_000);
    await simulation.clock.advance(4_000);
    simulation.load(node, "strict", 100, 10_000);
    await simulation.clock.advance(4_000);
    expect(node.limiter.stats().level).toBe(2);
    const late = node.decisions.filter(({ at, decision }) => at >= 5_000 && decision.app === "strict");
    expect(late.length).toBeGreaterThan(250);
    expect(new Set(late.map(({ decision }) => decision.code))).toEqual(new Set(["ok"]));
  });

  it.each(["refusing", "hanging"] as const)("gets tokens as soon as a store that was %s replies", async (mode) => {
    const simulation = createSimulation([strict]);
    const node = simulation.addNode("n1");
    simulation.store.mode = mode;
    simulation.load(node, "strict", 100, 10_000);
    await simulation.clock.advance(1_500);
    simulation.store.mode = "up";
    await simulation.clock.advance(1_900);
    expect(node.limiter.stats().level).toBeGreaterThanOrEqual(2);
    const late = node.decisions.filter(({ at }) => at >= 3_200);
    expect(late.length).toBeGreaterThan(10);
    expect(new Set(late.map(({ decision }) => decision.code))).toEqual(new Set(["ok"]));
  });
});

describe("a reply that was lost before the store closed the epoch", () => {
  it("charges nothing twice, even if the next message is full of other apps", async () => {
    const apps = Array.from({ length: 401 }, (_, i) => limitedApp({ ...ample, id: `app-${i}` }));
    const [others, last] = [apps.slice(0, 400), apps[400]!];
    const simulation = createSimulation(apps, { nodeTtlMs: 3_000 });
    const node = simulation.addNode("n1");
    for (const { id } of apps) void node.limiter.check(id, "GET", 0);
    await simulation.clock.advance(500);
    // Its report arrives, and the reply is lost.
    simulation.store.mode = "mute";
    for (let i = 0; i < 5; i++) node.limiter.check(last.id, "GET", 0);
    await simulation.clock.advance(300);
    simulation.store.mode = "hanging";
    for (const { id } of others) node.limiter.check(id, "GET", 0);
    await simulation.clock.advance(6_000);
    for (const app of apps) {
      await simulation.quota.reconcile(app, { tolerance: 1, force: false, operation: `recover-${app.id}` });
    }
    simulation.store.mode = "up";
    await simulation.clock.advance(5_000);
    await simulation.during(node.limiter.close());
    const books = await Promise.all(apps.map((app) => simulation.quota.inspect(app)));
    expect(books.at(-1)!.spent).toBe(6);
    expect(new Set(books.slice(0, -1).map(({ spent }) => spent))).toEqual(new Set([2]));
    expect(new Set(books.map(({ granted, spent, returned }) => granted - spent - returned))).toEqual(new Set([0]));
  });
});
