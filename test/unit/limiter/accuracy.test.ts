/** The limit holds over several nodes, and is used: simulated seconds, skewed load. */
import { describe, expect, it } from "vitest";
import { createSimulation, limitedApp, type Simulation } from "../../support/simulation.js";

const SHARES = [0.8, 0.15, 0.05];

function threeNodes(simulation: Simulation, app: string, perSecond: number, until: number): void {
  SHARES.forEach((share, i) => {
    simulation.load(simulation.addNode(`n${i + 1}`), app, perSecond * share, until);
  });
}

const admitted = ({ nodes }: Simulation, from: number, to: number) =>
  nodes.reduce((sum, node) => sum + node.admitted(from, to), 0);

const totals = ({ nodes }: Simulation) =>
  nodes.reduce(
    (sum, { limiter }) => {
      const { local, remote, cached, withoutStore, syncs } = limiter.stats();
      return {
        requests: sum.requests + local + remote + cached + withoutStore,
        local: sum.local + local,
        syncs: sum.syncs + syncs,
      };
    },
    { requests: 0, local: 0, syncs: 0 },
  );

describe("a limit shared by three nodes with load 80/15/5", () => {
  it.each([
    { rate: 1000, burst: 1000, load: 3000, atLeast: 0.98 },
    { rate: 1000, burst: 200, load: 1500, atLeast: 0.98 },
    { rate: 20, burst: 20, load: 100, atLeast: 0.95 },
    { rate: 20, burst: 40, load: 400, atLeast: 0.95 },
  ])(
    "of $rate tokens/s, burst $burst, at $load requests/s: never exceeded, and used",
    async ({ rate, burst, load, atLeast }) => {
      const simulation = createSimulation([limitedApp({ id: "app", guaranteed: rate, burst })]);
      threeNodes(simulation, "app", load, 30_000);
      await simulation.clock.advance(30_000);
      for (let from = 0; from <= 20_000; from += 500) {
        expect(admitted(simulation, from, from + 10_000), `from ${from}`).toBeLessThanOrEqual(burst + rate * 10);
      }
      const used = admitted(simulation, 5_000, 30_000) / (rate * 25);
      expect(used).toBeGreaterThanOrEqual(atLeast);
    },
  );

  it("that is not reached is decided locally, with very few calls to the store", async () => {
    const simulation = createSimulation([limitedApp({ id: "app", guaranteed: 100_000, burst: 100_000 })]);
    threeNodes(simulation, "app", 6000, 10_000);
    await simulation.clock.advance(10_000);
    const { requests, local } = totals(simulation);
    expect(admitted(simulation, 0, 10_000)).toBe(requests);
    expect(local / requests).toBeGreaterThan(0.95);
    expect(simulation.store.calls / requests).toBeLessThanOrEqual(0.01);
  });
});

describe("a flood", () => {
  it("of forty times the limit costs no more calls than one of ten times", async () => {
    const callsAt = async (load: number) => {
      const simulation = createSimulation([limitedApp({ id: "app", guaranteed: 100, burst: 100 })]);
      threeNodes(simulation, "app", load, 10_000);
      await simulation.clock.advance(10_000);
      return simulation.store.calls;
    };
    const [ten, forty] = [await callsAt(1_000), await callsAt(4_000)];
    expect(forty).toBeLessThanOrEqual(ten * 1.25);
  });

  it("is refused with a retry time and takes no tokens from the cluster", async () => {
    const simulation = createSimulation([limitedApp({ id: "app", guaranteed: 10, burst: 10 })], {
      capacity: 1000,
      rate: 0,
    });
    const node = simulation.addNode("n1");
    simulation.load(node, "app", 1000, 2000);
    await simulation.clock.advance(2000);
    const refused = node.decisions.filter(({ decision }) => !decision.allowed);
    expect(refused.length).toBeGreaterThan(1900);
    for (const { decision } of refused) {
      expect(decision).toMatchObject({ code: "quota_exhausted" });
      expect(decision.retryAfterMs).toBeGreaterThan(0);
    }
    const books = await simulation.quota.inspect(limitedApp({ id: "app", guaranteed: 10, burst: 10 }));
    expect(1000 - books.clusterTokens).toBe(books.granted - books.returned);
  });
});
