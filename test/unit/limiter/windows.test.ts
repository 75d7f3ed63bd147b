/** Limits are exact in every time window, idle tokens are recalled, and slow apps cost few messages: simulated nodes. */
import { describe, expect, it } from "vitest";
import { createSimulation, limitedApp, type SimulatedNode, type Simulation } from "../../support/simulation.js";

interface Limit {
  rate: number;
  burst: number;
}

/** Admitted tokens beyond burst + rate × time, in the worst window between two admissions. */
function worstExcess(nodes: SimulatedNode[], { rate, burst }: Limit): number {
  const admitted = nodes
    .flatMap(({ decisions }) => decisions)
    .filter(({ decision }) => decision.allowed)
    .sort((a, b) => a.at - b.at);
  let sum = 0;
  let lowest = Number.POSITIVE_INFINITY;
  let worst = Number.NEGATIVE_INFINITY;
  for (const { at, decision } of admitted) {
    lowest = Math.min(lowest, sum - (rate * at) / 1000);
    sum += decision.cost;
    worst = Math.max(worst, sum - (rate * at) / 1000 - lowest - burst);
  }
  return worst;
}

const requestsOf = (nodes: SimulatedNode[]) => nodes.flatMap(({ decisions }) => decisions).length;

function localRatio(nodes: SimulatedNode[], from: number): number {
  const counted = nodes.flatMap(({ decisions }) => decisions).filter(({ at }) => at >= from);
  return counted.filter(({ decision }) => decision.source === "local").length / counted.length;
}

function addNodes(simulation: Simulation, count: number): SimulatedNode[] {
  return Array.from({ length: count }, (_, i) => simulation.addNode(`n${i + 1}`));
}

describe("steady load at 80 %, then a flood", () => {
  it.each([
    { rate: 400, burst: 400 },
    { rate: 1000, burst: 1000 },
    { rate: 50, burst: 10 },
  ])("of rate $rate and burst $burst: no window exceeds burst + rate × time", async ({ rate, burst }) => {
    const simulation = createSimulation([limitedApp({ id: "app", guaranteed: rate, burst })]);
    const nodes = addNodes(simulation, 3);
    for (const node of nodes) {
      simulation.load(node, "app", (rate * 0.8) / 3, 10_000);
      simulation.clock.after(10_000, () => simulation.load(node, "app", rate * 2, 16_000));
    }
    await simulation.clock.advance(17_000);
    expect(worstExcess(nodes, { rate, burst })).toBeLessThanOrEqual(1e-6);
  });
});

describe("many small apps", () => {
  const apps = (count: number, limit: Limit) =>
    Array.from({ length: count }, (_, i) => limitedApp({ id: `app${i}`, guaranteed: limit.rate, burst: limit.burst }));

  async function run(appCount: number, limit: Limit, perSecond: number, seconds: number) {
    const simulation = createSimulation(apps(appCount, limit), { capacity: 1_000_000_000, rate: 1_000_000_000 });
    const nodes = addNodes(simulation, 10);
    for (const node of nodes) {
      for (let i = 0; i < appCount; i++) {
        simulation.clock.after(Math.random() * (1000 / perSecond), () =>
          simulation.load(node, `app${i}`, perSecond, seconds * 1000),
        );
      }
    }
    await simulation.clock.advance(5_000);
    const warm = { entries: simulation.store.entries, requests: requestsOf(nodes) };
    await simulation.clock.advance((seconds - 5) * 1000);
    const requests = requestsOf(nodes) - warm.requests;
    const refused = nodes.flatMap(({ decisions }) => decisions).filter(({ decision }) => !decision.allowed).length;
    return { entries: (simulation.store.entries - warm.entries) / requests, local: localRatio(nodes, 5_000), refused };
  }

  it("with ample quota at 0.5 requests/s per node and app: few ledger entries, decided locally", async () => {
    const { entries, local, refused } = await run(20, { rate: 1_000_000, burst: 1_000_000 }, 0.5, 120);
    expect(refused).toBe(0);
    expect(entries).toBeLessThanOrEqual(0.1);
    expect(local).toBeGreaterThanOrEqual(0.95);
  });

  it("with ample quota at 2 requests/s", async () => {
    const { entries, local } = await run(20, { rate: 1_000_000, burst: 1_000_000 }, 2, 60);
    expect(entries).toBeLessThanOrEqual(0.05);
    expect(local).toBeGreaterThanOrEqual(0.95);
  });

  it("with burst 200 and rate 100 at 2 requests/s", async () => {
    const { entries, refused } = await run(20, { rate: 100, burst: 200 }, 2, 60);
    expect(refused).toBe(0);
    expect(entries).toBeLessThanOrEqual(0.25);
  });
});

describe("two nodes with a limit of 10", () => {
  it("admit 10 requests, whichever node they reach, and then refuse", async () => {
    for (let pattern = 0; pattern < 1 << 10; pattern += 37) {
      const simulation = createSimulation([limitedApp({ id: "app", guaranteed: 0, burst: 10 })]);
      const nodes = addNodes(simulation, 2);
      const answers: boolean[] = [];
      for (let i = 0; i < 12; i++) {
        const node = nodes[(pattern >> i) & 1] as SimulatedNode;
        answers.push((await simulation.during(node.limiter.check("app", "GET", 0))).allowed);
        await simulation.clock.advance(50);
      }
      expect(answers, `pattern ${pattern}`).toEqual([...Array(10).fill(true), false, false]);
    }
  });
});
