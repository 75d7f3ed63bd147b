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

describe("a request that needs tokens of another node", () => {
  /** The first node holds 10 of 100 tokens, and 89 are left: the second one needs 95. */
  async function needy(options = {}) {
    const simulation = createSimulation([limitedApp({ id: "app", guaranteed: 0, burst: 100, ...options })]);
    const [holder, other] = addNodes(simulation, 2) as [SimulatedNode, SimulatedNode];
    await simulation.clock.advance(10);
    await simulation.during(holder.limiter.check("app", "GET", 0));
    expect(holder.limiter.balances()[0]!.balance).toBe(10);
    async function ask(cost: number, during: () => void = () => {}) {
      const start = simulation.clock.now();
      const made = other.limiter.take("app", cost);
      await simulation.clock.advance(2);
      during();
      const { allowed, code } = await simulation.during(made);
      return { allowed, code, tookMs: simulation.clock.now() - start };
    }
    return { simulation, holder, other, ask };
  }
  const DEADLINE_MS = 1_000 + 100;

  it("is paid from what the other one returns", async () => {
    const { holder, ask } = await needy();
    const { allowed, tookMs } = await ask(95);
    expect(allowed).toBe(true);
    expect(tookMs).toBeLessThan(250);
    expect(holder.limiter.balances()[0]!.balance).toBe(0);
    expect(await ask(5)).toMatchObject({ allowed: false, code: "quota_exhausted" });
    expect(await ask(4)).toMatchObject({ allowed: true });
  });

  it.each(["refusing", "hanging", "mute"] as const)(
    "is decided by its deadline if the store is %s during the recall, and no token is lost or spent twice",
    async (mode) => {
      const { simulation, ask, holder, other } = await needy();
      const { allowed, code, tookMs } = await ask(95, () => {
        simulation.store.mode = mode;
      });
      expect([allowed, code]).toEqual([false, "store_unavailable"]);
      expect(tookMs).toBeLessThanOrEqual(DEADLINE_MS);
      simulation.store.mode = "up";
      await simulation.clock.advance(5_000);
      expect(await ask(95)).toMatchObject({ allowed: true });
      expect(await ask(5)).toMatchObject({ allowed: false, code: "quota_exhausted" });
      for (const node of [holder, other]) await simulation.during(node.limiter.close());
      const { tokens, spent } = await simulation.quota.inspect(limitedApp({ id: "app", guaranteed: 0, burst: 100 }));
      expect({ tokens, spent }).toEqual({ tokens: 4, spent: 96 });
    },
  );

  it.each([100, 400, 900])(
    "is decided by its deadline if the store becomes slow during the recall: %i ms",
    async (ms) => {
      const { simulation, ask, other } = await needy();
      const { allowed, tookMs } = await ask(95, () => {
        simulation.store.latencyMs = ms;
      });
      expect(tookMs).toBeLessThanOrEqual(DEADLINE_MS);
      simulation.store.latencyMs = 1;
      await simulation.clock.advance(5_000);
      expect((await ask(95)).allowed).toBe(!allowed);
      expect(other.limiter.stats().level).toBe(0);
    },
  );

  it("is refused soon if the other node ignores recalls; its tokens return when it is declared dead", async () => {
    const { simulation, holder, ask } = await needy({ onStoreFailure: "open" });
    holder.kill();
    const { allowed, code, tookMs } = await ask(95);
    expect([allowed, code]).toEqual([false, "quota_exhausted"]);
    expect(tookMs).toBeLessThanOrEqual(DEADLINE_MS);
    // During the shortage, refusals are immediate.
    expect((await ask(95)).tookMs).toBeLessThanOrEqual(20);
    await simulation.clock.advance(4_000);
    const app = limitedApp({ id: "app", guaranteed: 0, burst: 100 });
    const how = { tolerance: 0.1, force: false, operation: "r" };
    expect(await simulation.quota.reconcile(app, how)).toMatchObject({ deadNodes: 1, recoveredTokens: 11 });
    expect(await ask(95)).toMatchObject({ allowed: true });
  });
});
