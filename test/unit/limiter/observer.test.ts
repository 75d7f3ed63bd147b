/** The observer of a limiter sees each decision and settlement once, with the time it took. */
import { describe, expect, it } from "vitest";
import { UNKNOWN_LENGTH } from "../../../src/core/cost.js";
import type { Decision } from "../../../src/limiter/limiter.js";
import { createSimulation, limitedApp } from "../../support/simulation.js";

function observed() {
  const seen: [decision: Decision, ms: number, waited: boolean][] = [];
  const settled: Decision[] = [];
  const simulation = createSimulation(
    [limitedApp({ id: "app", guaranteed: 10, burst: 10 })],
    {},
    {
      unknownApps: "reject",
      observer: {
        decided: (...decided) => void seen.push(decided),
        settled: (decision) => void settled.push(decision),
      },
    },
  );
  simulation.store.latencyMs = 30;
  return { simulation, node: simulation.addNode("n1"), seen, settled };
}

describe("the observer of a limiter", () => {
  it("sees a decision that waited with its time, and immediate ones without", async () => {
    const { simulation, node, seen } = observed();
    const waited = await simulation.during(node.limiter.check("app", "GET", 0));
    const immediate = node.limiter.take("app", 1);
    const unknown = node.limiter.check("nobody", "GET", UNKNOWN_LENGTH);
    const unidentified = node.limiter.refuse("invalid_identity", "GET");
    expect(seen).toEqual([
      [waited, expect.closeTo(30, -1), true],
      [immediate, 0, false],
      [unknown, 0, false],
      [unidentified, 0, false],
    ]);
    expect(unidentified).toMatchObject({ allowed: false, code: "invalid_identity", app: "", method: "GET" });
  });

  it("sees decisions about descriptor limits", async () => {
    const { simulation, node, seen } = observed();
    const limit = node.limiter.limits.enter(limitedApp({ id: "rate-limit:x", label: "rule", fillSeconds: 60 }));
    const decision = await simulation.during(node.limiter.limits.take(limit, 1));
    expect(seen).toEqual([[decision, expect.closeTo(30, -1), true]]);
    expect(decision.app).toBe("rule");
  });

  it("sees a request whose app is removed while it waits once, with its whole time", async () => {
    const { simulation, node, seen } = observed();
    const waiting = node.limiter.check("app", "GET", 0);
    await simulation.clock.advance(20);
    node.reconfigure({ apps: [limitedApp({ id: "default" })], unknownApps: "default" });
    const decision = await simulation.during(waiting);
    expect(decision.app).toBe("default");
    expect(seen).toEqual([[decision, expect.any(Number), true]]);
    expect(seen[0]![1]).toBeGreaterThanOrEqual(50);
  });

  it("sees each settlement once", async () => {
    const { simulation, node, settled } = observed();
    const decision = await simulation.during(node.limiter.check("app", "GET", 0));
    node.limiter.settle(decision, 10, 20);
    expect(settled).toEqual([decision]);
  });
});
