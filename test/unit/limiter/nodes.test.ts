/** Nodes die, pause, leave and come back: no token is lost for long, none is spent twice. */
import { describe, expect, it } from "vitest";
import { createSimulation, limitedApp } from "../../support/simulation.js";

const app = limitedApp({ id: "app", guaranteed: 0, burst: 3000 });
const reconcile = { tolerance: 0.1, force: false };

describe("a node that holds tokens", () => {
  it("and is killed: its tokens are returned once, after its time-to-live and one reconcile", async () => {
    const simulation = createSimulation([app]);
    const node = simulation.addNode("n1");
    simulation.load(node, "app", 100, 1_000);
    await simulation.clock.advance(500);
    const held = node.limiter.balances()[0]!.balance;
    expect(held).toBeGreaterThan(50);
    node.kill();
    await simulation.clock.advance(3_000 + 500);
    const first = await simulation.quota.reconcile(app, { ...reconcile, operation: "r1" });
    expect(first?.deadNodes).toBe(1);
    expect(first?.recoveredTokens).toBeGreaterThanOrEqual(held);
    const second = await simulation.quota.reconcile(app, { ...reconcile, operation: "r2" });
    expect(second).toMatchObject({ recoveredTokens: 0, deadNodes: 0, driftBefore: 0 });
  });

  it("and is restarted under its name: both epochs are charged once", async () => {
    const simulation = createSimulation([app]);
    const first = simulation.addNode("n1");
    simulation.load(first, "app", 100, 500);
    await simulation.clock.advance(500);
    first.kill();
    const [life] = await simulation.quota.nodes();
    const reported = (await simulation.quota.ledger(life!.node)).apps[0]!.spent;
    const second = simulation.addNode("n1");
    simulation.load(second, "app", 100, 6_000);
    await simulation.clock.advance(4_000);
    expect(await simulation.quota.reconcile(app, { ...reconcile, operation: "r1" })).toMatchObject({ deadNodes: 1 });
    await simulation.clock.advance(2_000);
    await simulation.during(second.limiter.close());
    const books = await simulation.quota.inspect(app);
    expect(books.granted - books.returned - books.spent).toBe(0);
    // What the first life spent after its last report is not on the books, and nothing else is missing.
    expect(books.spent).toBe(reported + second.admitted());
  });

  it("and is killed while tokens are scarce: at most one sync interval of its spending is lost", async () => {
    const busy = limitedApp({ id: "app", guaranteed: 1000, burst: 1000 });
    const simulation = createSimulation([busy]);
    const nodes = ["n1", "n2"].map((name) => simulation.addNode(name));
    for (const node of nodes) simulation.load(node, "app", 1500, 5_000);
    await simulation.clock.advance(3_050);
    const killed = nodes[0]!;
    killed.kill();
    const ledgers = await Promise.all(
      (await simulation.quota.nodes()).map(({ node }) =>
        simulation.quota.ledger(node).then(({ apps }) => ({ node, apps })),
      ),
    );
    const reported = ledgers.find(({ node }) => node.startsWith("n1"))!.apps[0]!.spent;
    const lost = killed.admitted() - reported;
    const interval = 100 + 2;
    const now = simulation.clock.now();
    expect(lost).toBeLessThanOrEqual(killed.admitted(now - interval, now));
  });

  it("and is cut off past its time-to-live: it drops its tokens, reports its spending, and continues", async () => {
    const simulation = createSimulation([
      limitedApp({ id: "app", guaranteed: 0, burst: 3000, onStoreFailure: "closed" }),
    ]);
    const node = simulation.addNode("n1");
    simulation.load(node, "app", 50, 20_000);
    await simulation.clock.advance(500);
    simulation.store.mode = "refusing";
    await simulation.clock.advance(5_000);
    await simulation.quota.reconcile(app, { ...reconcile, operation: "r1" });
    simulation.store.mode = "up";
    await simulation.clock.advance(6_000);
    const late = node.decisions.filter(({ at, decision }) => at > 9_000 && !decision.allowed);
    expect(late).toEqual([]);
    await simulation.during(node.limiter.close());
    const books = await simulation.quota.inspect(app);
    expect(books.spent).toBe(node.admitted());
  });

  it("and is idle: it returns them after a while and gets new ones with the next request", async () => {
    const simulation = createSimulation([app]);
    const node = simulation.addNode("n1");
    simulation.load(node, "app", 100, 300);
    await simulation.clock.advance(400);
    expect(node.limiter.balances()[0]!.balance).toBeGreaterThan(0);
    await simulation.clock.advance(89_000);
    expect(node.limiter.balances()[0]!.balance).toBeGreaterThan(0);
    // The last use was noticed with the report after it.
    await simulation.clock.advance(2_000 + 30_000);
    expect(node.limiter.balances()[0]!.balance).toBe(0);
    const books = await simulation.quota.inspect(app);
    expect(books.tokens).toBe(3000 - node.admitted());
    simulation.load(node, "app", 100, simulation.clock.now() + 100);
    await simulation.clock.advance(200);
    expect(node.decisions.every(({ decision }) => decision.allowed)).toBe(true);
  });

  it("and stops: it returns all of them at once", async () => {
    const simulation = createSimulation([app]);
    const node = simulation.addNode("n1");
    simulation.load(node, "app", 100, 300);
    await simulation.clock.advance(350);
    await simulation.during(node.limiter.close());
    expect((await simulation.quota.inspect(app)).tokens).toBe(3000 - node.admitted());
    expect(await simulation.quota.nodes()).toEqual([]);
  });
});
