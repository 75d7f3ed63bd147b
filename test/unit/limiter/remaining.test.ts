/** What clients see as remaining, compared with the store's bucket and the lease, over time. */
import { describe, expect, it } from "vitest";
import type { AppLimits } from "../../../src/core/app-limits.js";
import type { Decision } from "../../../src/limiter/limiter.js";
import { compileLimits } from "../../../src/limiter/limits/limit-options.js";
import { createRandom } from "../../support/random.js";
import { createSimulation, limitedApp, type SimulatedNode, type Simulation } from "../../support/simulation.js";

const SLOW: Partial<AppLimits> = { guaranteed: 10, burst: 20 };
/** Decisions that do not read the clock may be this late. */
const CLOCK_MS = 110;

function attributes(user: string) {
  const own = { app: "app", user, method: "GET", host: "example.com", path: "/", address: "192.0.2.1" };
  return { ...own, headerCount: () => 0, header: () => "" };
}

/** Tokens in the bucket of the store and on the lease of the node. */
async function truth({ quota }: Simulation, node: SimulatedNode, app: AppLimits): Promise<number> {
  const { tokens } = await quota.inspect(app);
  return tokens + node.limiter.balances().find((one) => one.app === app.id)!.balance;
}

/** Tokens that other nodes have taken out of the bucket so far. */
async function takenByOthers({ quota }: Simulation, { name }: SimulatedNode, app: AppLimits): Promise<number> {
  const shard = quota.shards[0]!;
  const { granted, returned } = await quota.inspect(app);
  const own = (await shard.nodes()).find(({ node }) => node.startsWith(`${name}@`))!;
  const [ledger] = (await shard.ledger(own.node)).apps;
  return granted - returned - (ledger === undefined ? 0 : ledger.granted - ledger.returned);
}

/** The decision, without letting time pass if it is made at once. */
async function decided({ during }: Simulation, made: Decision | Promise<Decision>): Promise<Decision> {
  return made instanceof Promise ? during(made) : made;
}

describe("remaining while the bucket refills", () => {
  it.each([4_000, 2_500, 1_500])("is the capacity less the cost, with a request every %i ms", async (gapMs) => {
    const app = limitedApp({ id: "app", ...SLOW });
    const simulation = createSimulation([app]);
    const node = simulation.addNode("one");
    await simulation.clock.advance(10);
    for (let i = 0; i < 40; i++) {
      const decision = await decided(simulation, node.limiter.check("app", "GET", 0));
      // Each response has a few bytes: later requests are estimated at two tokens.
      node.limiter.settle(decision, 0, 100);
      expect(decision.remaining, `request ${i}`).toBe(20 - decision.cost);
      await simulation.clock.advance(gapMs);
    }
  });

  it("can be spent at once", async () => {
    const app = limitedApp({ id: "app", ...SLOW });
    const simulation = createSimulation([app]);
    const node = simulation.addNode("one");
    await simulation.clock.advance(10);
    for (let round = 0; round < 10; round++) {
      await simulation.clock.advance(4_000);
      const { remaining } = await decided(simulation, node.limiter.check("app", "GET", 0));
      expect(remaining).toBe(19);
    }
    const decisions = await simulation.during(
      Promise.all(Array.from({ length: 30 }, () => node.limiter.take("app", 1))),
    );
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(19);
    expect(decisions.at(-1)).toMatchObject({ allowed: false, remaining: 0 });
  });

  it("follows the refill after a refusal, also of an overdrawn bucket", async () => {
    const app = limitedApp({ id: "app", ...SLOW });
    const simulation = createSimulation([app]);
    const node = simulation.addNode("one");
    await simulation.clock.advance(10);
    const large = await decided(simulation, node.limiter.check("app", "GET", 0));
    // The response costs 101 tokens: the bucket is 81 below zero.
    node.limiter.settle(large, 0, 100 * 65_536);
    for (let i = 0; i < 120; i++) {
      await simulation.clock.advance(137);
      const { remaining, allowed, cost } = await decided(simulation, node.limiter.take("app", 3));
      const left = await truth(simulation, node, app);
      expect(remaining).toBeLessThanOrEqual(Math.max(left, 0));
      if (allowed && cost > 0) expect(left).toBeGreaterThanOrEqual(0);
    }
  });

  it("of several limits shows each as it is", async () => {
    const limits = compileLimits([{ name: "user", key: ["user"], rate: "5/s", burst: 10 }]);
    const app = limitedApp({ id: "app", ...SLOW });
    const simulation = createSimulation([app], {}, { limits });
    const node = simulation.addNode("one");
    await simulation.clock.advance(10);
    const seen: number[] = [];
    for (let i = 0; i < 30; i++) {
      const decision = await decided(simulation, node.limiter.check("app", "GET", 0, attributes("u")));
      expect(decision.remaining).toBe(19);
      seen.push(decision.limits![0]!.remaining);
      await simulation.clock.advance(4_000);
    }
    // Values are reported after a quarter of their bucket.
    expect(Math.max(...seen)).toBe(9);
    expect(Math.min(...seen)).toBeGreaterThanOrEqual(6);
  });
});

describe("remaining after a change", () => {
  it("of the limits starts from the level that the bucket had", async () => {
    const app = limitedApp({ id: "app", ...SLOW });
    const simulation = createSimulation([app]);
    const node = simulation.addNode("one");
    await simulation.clock.advance(10);
    await decided(simulation, node.limiter.check("app", "GET", 0));
    await simulation.clock.advance(25_000);
    const larger = limitedApp({ id: "app", guaranteed: 10, burst: 200 });
    node.reconfigure({ apps: [larger] });
    let last = 0;
    for (let i = 0; i < 30; i++) {
      await simulation.clock.advance(300);
      const { remaining, limit } = await decided(simulation, node.limiter.check("app", "GET", 0));
      const left = await truth(simulation, node, larger);
      expect(limit).toBe(200);
      expect(remaining).toBeLessThanOrEqual(left);
      last = left - remaining;
    }
    expect(last).toBeLessThan(6);
  });

  it("of the emergency state is never above the reduced capacity", async () => {
    const app = limitedApp({ id: "app", guaranteed: 100, burst: 200, priority: 1 });
    const simulation = createSimulation([app]);
    const node = simulation.addNode("one");
    await simulation.clock.advance(10);
    await decided(simulation, node.limiter.check("app", "GET", 0));
    await simulation.quota.emergencyOn(0, "", "", "e1");
    node.limiter.setEmergency(true);
    const during: Decision[] = [];
    for (let i = 0; i < 20; i++) {
      const decision = await decided(simulation, node.limiter.check("app", "GET", 0));
      during.push(decision);
      expect(decision.remaining).toBeLessThanOrEqual((await truth(simulation, node, app)) + 1);
      await simulation.clock.advance(200);
    }
    expect(during[0]).toMatchObject({ limit: 100 });
    expect(during.at(-1)!.remaining).toBeGreaterThan(90);
    await simulation.quota.emergencyOff("e2");
    await simulation.clock.advance(5_000);
    expect((await decided(simulation, node.limiter.check("app", "GET", 0))).remaining).toBeGreaterThanOrEqual(198);
  });
});

describe("remaining in random histories", () => {
  for (let seed = 1; seed <= 30; seed++) {
    it(`of one node equals the store's level and the lease (seed ${seed})`, async () => {
      const random = createRandom(seed);
      const rate = [2, 10, 100][Math.floor(random() * 3)]!;
      const app = limitedApp({ id: "app", guaranteed: rate, burst: 10 + Math.floor(random() * 90) });
      const simulation = createSimulation([app]);
      const node = simulation.addNode("one");
      await simulation.clock.advance(10);
      for (let i = 0; i < 80; i++) {
        await simulation.clock.advance(Math.floor(random() * random() * 6_000));
        const made = node.limiter.take("app", 1 + Math.floor(random() * 9));
        const isLocal = !(made instanceof Promise);
        const { remaining } = await decided(simulation, made);
        const left = Math.max(await truth(simulation, node, app), 0);
        expect(remaining, `request ${i}`).toBeLessThanOrEqual(left);
        // The fraction of a token is not shown, and not known of the last reply.
        if (isLocal) expect(remaining, `request ${i}`).toBeGreaterThan(left - 2 - (rate * CLOCK_MS) / 1000);
      }
    });

    it(`of three nodes is never above it, unless others took tokens after the last reply (seed ${seed})`, async () => {
      const random = createRandom(seed + 1_000);
      const app = limitedApp({ id: "app", guaranteed: 10, burst: 20 + Math.floor(random() * 80) });
      const simulation = createSimulation([app]);
      const nodes = [1, 2, 3].map((i) => simulation.addNode(`n${i}`));
      await simulation.clock.advance(10);
      let checked = 0;
      for (let round = 0; round < 12; round++) {
        const take = (node: SimulatedNode) => node.limiter.take("app", 1 + Math.floor(random() * 5));
        for (let i = 0; i < 10; i++) {
          await simulation.clock.advance(Math.floor(random() * random() * 2_000));
          const node = nodes[Math.floor(random() * 3)]!;
          await decided(simulation, take(node));
        }
        // Clients use one node only; the others may still fill their leases.
        const node = nodes[Math.floor(random() * 3)]!;
        let hasReply = false;
        let before = 0;
        for (let i = 0; i < 15; i++) {
          const now = await takenByOthers(simulation, node, app);
          const made = take(node);
          const { remaining } = await decided(simulation, made);
          if (made instanceof Promise) {
            hasReply = true;
            before = now;
          }
          if (hasReply) {
            const taken = Math.max((await takenByOthers(simulation, node, app)) - before, 0);
            expect(remaining).toBeLessThanOrEqual(Math.max(await truth(simulation, node, app), 0) + taken);
            checked++;
          }
          await simulation.clock.advance(Math.floor(random() * random() * 4_000));
        }
      }
      expect(checked).toBeGreaterThan(20);
    });
  }
});
