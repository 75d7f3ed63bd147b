/** The store refuses, hangs or is slow: decisions go on by policy, and what was spent meanwhile is charged. */

import { describe, expect, it } from "vitest";
import type { OnStoreFailure } from "../../../src/core/app-limits.js";
import type { Decision } from "../../../src/limiter/limiter.js";
import { type Changed, createSimulation, limitedApp, type SimulatedNode } from "../../support/simulation.js";

const app = (onStoreFailure: OnStoreFailure, more = {}) =>
  limitedApp({ id: "app", guaranteed: 200, burst: 200, onStoreFailure, ...more });

const between = (node: SimulatedNode, from: number, to: number): Decision[] =>
  node.decisions.filter(({ at }) => at >= from && at < to).map(({ decision }) => decision);

describe.each(["refusing", "hanging"] as const)("a store that is %s", (mode) => {
  async function outage(policy: OnStoreFailure, perSecond = 400, options: Changed = { failOpenTokens: 50 }) {
    const simulation = createSimulation([app(policy)], {}, options);
    const node = simulation.addNode("n1");
    simulation.load(node, "app", perSecond, 20_000);
    await simulation.clock.advance(5_000);
    simulation.store.mode = mode;
    await simulation.clock.advance(7_000);
    return { simulation, node };
  }

  it("closed: requests get store_unavailable, never a rate-limit refusal", async () => {
    const { node } = await outage("closed");
    const made = between(node, 8_000, 12_000);
    expect(made.length).toBeGreaterThan(1000);
    for (const decision of made)
      expect(decision).toMatchObject({ allowed: false, code: "store_unavailable", source: "without_store" });
  });

  it("open: an app within its rate is not refused during the failure", async () => {
    const { node } = await outage("open", 180, {});
    expect(node.decisions.length).toBeGreaterThan(2_000);
    expect(node.decisions.filter(({ decision }) => !decision.allowed)).toEqual([]);
  });

  it("open: an app at half of its rate is not refused after the failure, however long it was", async () => {
    const simulation = createSimulation([app("open")]);
    const nodes = ["n1", "n2"].map((name) => simulation.addNode(name));
    for (const node of nodes) simulation.load(node, "app", 50, 60_000);
    await simulation.clock.advance(15_000);
    simulation.store.mode = mode;
    await simulation.clock.advance(20_000);
    simulation.store.mode = "up";
    await simulation.clock.advance(25_000);
    const made = nodes.flatMap((node) => node.decisions);
    expect(made.length).toBeGreaterThan(5_900);
    expect(made.filter(({ decision }) => !decision.allowed)).toEqual([]);
    expect(made.filter(({ decision }) => decision.source === "without_store").length).toBeGreaterThan(1_500);
  });

  it("open: the cap of the app comes before the common one", async () => {
    const { node } = await outage("open", 400, { apps: [app("open", { failOpenTokens: 20 })], failOpenTokens: 50 });
    expect(node.admitted(8_000, 12_000)).toBeGreaterThanOrEqual(4 * 20 - 1);
    expect(node.admitted(8_000, 12_000)).toBeLessThanOrEqual(4 * 20 + 1);
  });

  it("open: above its rate, an app gets its own rate on each node, and its burst once", async () => {
    const simulation = createSimulation([app("open")]);
    const nodes = ["n1", "n2"].map((name) => simulation.addNode(name));
    for (const node of nodes) simulation.load(node, "app", 400, 20_000);
    await simulation.clock.advance(5_000);
    simulation.store.mode = mode;
    await simulation.clock.advance(7_000);
    for (const node of nodes) {
      expect(node.admitted(9_000, 12_000)).toBeGreaterThanOrEqual(3 * 200 - 1);
      expect(node.admitted(5_000, 12_000)).toBeLessThanOrEqual(200 + 7 * 200 + 200);
    }
  });

  it("open with a cap: the configured tokens per second are admitted, then store_unavailable", async () => {
    const { node } = await outage("open");
    expect(node.admitted(8_000, 12_000)).toBeGreaterThanOrEqual(4 * 50 - 1);
    expect(node.admitted(8_000, 12_000)).toBeLessThanOrEqual(4 * 50 + 1);
    const refused = between(node, 8_000, 12_000).filter((decision) => !decision.allowed);
    expect(new Set(refused.map((decision) => decision.code))).toEqual(new Set(["store_unavailable"]));
  });

  it("local: the rate of the app, divided by the number of live nodes", async () => {
    const simulation = createSimulation([app("local")]);
    const nodes = ["n1", "n2"].map((name) => simulation.addNode(name));
    for (const node of nodes) simulation.load(node, "app", 400, 20_000);
    await simulation.clock.advance(5_000);
    simulation.store.mode = mode;
    await simulation.clock.advance(7_000);
    for (const node of nodes) {
      expect(node.admitted(8_000, 12_000)).toBeGreaterThanOrEqual(4 * 100 - 1);
      expect(node.admitted(8_000, 12_000)).toBeLessThanOrEqual(4 * 100 + 1);
    }
  });

  it("reaches level 3, sends one probe at a time, and falls level by level after recovery", async () => {
    const levels: number[] = [];
    const simulation = createSimulation(
      [app("open")],
      {},
      { observer: { levelChanged: (level) => levels.push(level) } },
    );
    const node = simulation.addNode("n1");
    simulation.load(node, "app", 400, 40_000);
    await simulation.clock.advance(5_000);
    simulation.store.mode = mode;
    const before = simulation.store.calls;
    await simulation.clock.advance(10_000);
    expect(node.limiter.stats().level).toBe(3);
    expect(simulation.store.calls - before).toBeLessThan(30);
    simulation.store.mode = "up";
    await simulation.clock.advance(15_000);
    expect(levels.slice(-4)).toEqual([3, 2, 1, 0]);
  });

  it.each([
    ["with a cap", { failOpenTokens: 50 }],
    ["without a cap", {}],
  ])("what was spent without the store is charged once and in full after recovery, %s", async (_, options) => {
    const { simulation, node } = await outage("open", 400, options);
    simulation.store.mode = "up";
    await simulation.clock.advance(3_000);
    await simulation.during(node.limiter.close());
    const books = await simulation.quota.inspect(app("open"));
    expect(books.spent).toBe(node.admitted());
    expect(books.granted - books.returned).toBe(books.spent);
  });

  it("no decision waits longer than its deadline", async () => {
    const simulation = createSimulation([app("closed")], {}, { timeoutMs: 300 });
    const node = simulation.addNode("n1");
    simulation.store.mode = mode;
    const asked = simulation.clock.now();
    let decided = Number.NaN;
    void Promise.resolve(node.limiter.check("app", "GET", 0)).then(() => {
      decided = simulation.clock.now();
    });
    await simulation.clock.advance(2_000);
    expect(decided - asked).toBeLessThanOrEqual(300 + 100);
  });
});

describe("a slow store", () => {
  it.each([
    { latencyMs: 50, level: 1 },
    { latencyMs: 500, level: 2 },
  ])("of $latencyMs ms is level $level; an app within its limit notices nothing", async ({ latencyMs, level }) => {
    const simulation = createSimulation([limitedApp({ id: "app", guaranteed: 10_000, burst: 10_000 })]);
    const node = simulation.addNode("n1");
    simulation.load(node, "app", 200, 30_000);
    await simulation.clock.advance(5_000);
    simulation.store.latencyMs = latencyMs;
    await simulation.clock.advance(10_000);
    expect(node.limiter.stats().level).toBe(level);
    const made = between(node, 5_000, 15_000);
    expect(made.every((decision) => decision.allowed)).toBe(true);
    simulation.store.latencyMs = 1;
    await simulation.clock.advance(10_000);
    expect(node.limiter.stats().level).toBe(0);
  });

  it("still never grants more than the limit", async () => {
    const simulation = createSimulation([
      limitedApp({ id: "app", guaranteed: 100, burst: 100, onStoreFailure: "closed" }),
    ]);
    const nodes = ["n1", "n2", "n3"].map((name) => simulation.addNode(name));
    simulation.store.latencyMs = 500;
    for (const node of nodes) simulation.load(node, "app", 300, 20_000);
    await simulation.clock.advance(20_000);
    const admitted = nodes.reduce((sum, node) => sum + node.admitted(), 0);
    expect(admitted).toBeLessThanOrEqual(100 + 100 * 20);
  });
});
