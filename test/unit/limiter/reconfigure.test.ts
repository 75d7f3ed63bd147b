/** Limits change while requests run: at once, without one of them failing for it, and with the books in order. */
import { describe, expect, it } from "vitest";
import type { Decision } from "../../../src/limiter/limiter.js";
import { createSimulation, limitedApp, type SimulatedNode, type Simulation } from "../../support/simulation.js";

const app = (more = {}) => limitedApp({ id: "app", guaranteed: 1000, burst: 1000, ...more });
const fallback = limitedApp({ id: "default", guaranteed: 1000, burst: 1000 });

const balances = (nodes: SimulatedNode[]) => nodes.map(({ limiter }) => limiter.balances()[0]!.balance);
const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0);
const admitted = (nodes: SimulatedNode[], from: number, to: number) =>
  sum(nodes.map((node) => node.admitted(from, to)));
const all = (nodes: SimulatedNode[], from: number) =>
  nodes.flatMap(({ decisions }) => decisions.filter(({ at }) => at >= from).map(({ decision }) => decision));

async function threeLoadedNodes(perSecond: number, burst = 1000): Promise<{ s: Simulation; nodes: SimulatedNode[] }> {
  const s = createSimulation([app({ burst })]);
  const nodes = ["n1", "n2", "n3"].map((name) => s.addNode(name));
  [0.8, 0.15, 0.05].forEach((share, i) => {
    s.load(nodes[i]!, "app", perSecond * share, 30_000);
  });
  await s.clock.advance(5_000);
  return { s, nodes };
}

describe("a limit that is halved under load on three nodes", () => {
  const halved = { apps: [app({ guaranteed: 500, burst: 500 })] };

  it.each([1500, 3000])("at %i requests/s: the new limit applies immediately", async (perSecond) => {
    const { s, nodes } = await threeLoadedNodes(perSecond);
    const changedAt = s.clock.now();
    for (const node of nodes) node.reconfigure(halved);
    // What is out on leases has left the bucket. Each is cut to the new burst; messages that are under way may add to
    // it, again up to the new burst. That is the bound.
    const leases = sum(balances(nodes));
    for (const balance of balances(nodes)) expect(balance).toBeLessThanOrEqual(500);
    await s.clock.advance(15_000);
    for (const seconds of [0.1, 0.5, 1, 2, 5, 10, 15]) {
      const many = admitted(nodes, changedAt, changedAt + seconds * 1000);
      expect(many, `after ${seconds} s`).toBeLessThanOrEqual(500 + 500 * seconds + nodes.length * 500);
    }
    // Under this load the bucket was all but empty, so nobody had much: the new rate holds almost to the token.
    const inTen = admitted(nodes, changedAt, changedAt + 10_000);
    expect(inTen).toBeLessThanOrEqual(500 * 10 + leases + 500);
    expect(inTen).toBeGreaterThanOrEqual(500 * 10 * 0.95);
    for (let from = changedAt + 1000; from < changedAt + 4_000; from += 500) {
      expect(admitted(nodes, from, from + 10_000)).toBeLessThanOrEqual(500 + 500 * 10);
    }
  });

  it("no request fails because of the change; refusals have a quota code", async () => {
    const { s, nodes } = await threeLoadedNodes(3000);
    const asked = () => sum(nodes.map(({ limiter }) => totalOf(limiter.stats())));
    const changedAt = s.clock.now();
    for (const node of nodes) node.reconfigure(halved);
    await s.clock.advance(5_000);
    const codes = new Set(all(nodes, changedAt).map(({ code }) => code));
    expect(codes).toEqual(new Set(["ok", "quota_exhausted"]));
    await s.clock.advance(30_000);
    expect(sum(nodes.map(({ decisions }) => decisions.length))).toBe(asked());
  });

  it("an app below the new limit is not refused", async () => {
    const { s, nodes } = await threeLoadedNodes(300);
    for (const node of nodes) node.reconfigure(halved);
    await s.clock.advance(5_000);
    expect(all(nodes, 0).every(({ allowed }) => allowed)).toBe(true);
  });

  it("and reaches the nodes within one second: the limit applies when the last node has it", async () => {
    const { s, nodes } = await threeLoadedNodes(3000);
    for (const node of nodes) {
      node.reconfigure(halved);
      await s.clock.advance(400);
    }
    const known = s.clock.now();
    await s.clock.advance(10_000);
    expect(admitted(nodes, known, known + 10_000)).toBeLessThanOrEqual(500 + 500 * 10 + 3 * 500);
    expect(all(nodes, 0).every(({ code }) => code === "ok" || code === "quota_exhausted")).toBe(true);
  });
});

function totalOf({ local, remote, cached, withoutStore }: ReturnType<SimulatedNode["limiter"]["stats"]>): number {
  return local + remote + cached + withoutStore;
}

describe("a burst that changes", () => {
  it("halved: the lease is cut, the excess is returned, and decisions show the new limit at once", async () => {
    const s = createSimulation([app({ guaranteed: 0, burst: 4000 })]);
    const node = s.addNode("n1");
    s.load(node, "app", 1000, 400);
    await s.clock.advance(400);
    const before = node.limiter.balances()[0]!.balance;
    expect(before).toBeGreaterThan(100);
    const smaller = app({ guaranteed: 0, burst: 100 });
    node.reconfigure({ apps: [smaller] });
    expect(node.limiter.balances()[0]!).toMatchObject({ balance: 100 });
    const made = node.limiter.check("app", "GET", 0) as Decision;
    expect(made).toMatchObject({ allowed: true, limit: 100, remaining: 99, balance: 99 });
    await s.clock.advance(300);
    expect(await s.quota.ledger((await s.quota.nodes())[0]!.node)).toMatchObject({ held: expect.any(Number) });
    const books = await s.quota.inspect(smaller);
    expect(books.returned).toBeGreaterThanOrEqual(before - 100);
    expect(books.tokens).toBeLessThanOrEqual(100);
  });

  it("halved: a bucket keeps its tokens up to the new capacity, less what nodes hold; doubled: no tokens are added", async () => {
    const s = createSimulation([]);
    const sender = { node: "n", epoch: 1, seq: 1 };
    const nothing = { granted: 0, spent: 0, returned: 0, need: 0, want: 0 };
    const full = app({ guaranteed: 0, burst: 1000 });
    await s.quota.grant(sender, [{ ...nothing, need: 100, want: 100, app: full }]);
    expect((await s.quota.inspect(full)).tokens).toBe(900);
    const doubled = app({ guaranteed: 0, burst: 2000 });
    await s.quota.grant({ ...sender, seq: 2 }, [{ ...nothing, granted: 100, app: doubled }]);
    expect((await s.quota.inspect(doubled)).tokens).toBe(900);
    const halved = app({ guaranteed: 0, burst: 500 });
    await s.quota.grant({ ...sender, seq: 3 }, [{ ...nothing, granted: 100, app: halved }]);
    expect((await s.quota.inspect(halved)).tokens).toBe(500 - 100);
    await s.quota.grant({ ...sender, seq: 4 }, [{ ...nothing, granted: 100, app: full }]);
    expect((await s.quota.inspect(full)).tokens).toBe(500 - 100);
  });

  it("raised: refusals under the old limit are asked again", async () => {
    const s = createSimulation([app({ guaranteed: 1, burst: 5 })]);
    const node = s.addNode("n1");
    expect(await s.during(node.limiter.check("app", "PUT", 1024 * 1024))).toMatchObject({
      code: "cost_exceeds_capacity",
    });
    expect(node.limiter.check("app", "PUT", 1024 * 1024)).toMatchObject({ source: "cached" });
    node.reconfigure({ apps: [app({ guaranteed: 1000, burst: 100 })] });
    await s.clock.advance(50);
    expect(await s.during(node.limiter.check("app", "PUT", 1024 * 1024))).toMatchObject({ allowed: true, cost: 21 });
  });

  it("in an emergency: the limit is the new burst, cut to the app's share", async () => {
    const s = createSimulation([app({ priority: 2 })]);
    const node = s.addNode("n1");
    await s.quota.emergencyOn(0, "test", "test", "op");
    node.limiter.setEmergency(true);
    node.reconfigure({ apps: [app({ priority: 2, burst: 500 })] });
    expect(await s.during(node.limiter.check("app", "GET", 0))).toMatchObject({ limit: 50 });
  });
});

describe("a reply to a message under the old limits", () => {
  it("that refuses: waiters are asked for again and admitted if the new limit allows it", async () => {
    const s = createSimulation([app({ guaranteed: 1, burst: 5 })]);
    const node = s.addNode("n1");
    s.store.latencyMs = 10;
    const waiting = node.limiter.check("app", "PUT", 1024 * 1024);
    await s.clock.advance(6);
    node.reconfigure({ apps: [app({ guaranteed: 1000, burst: 100 })] });
    // The bucket keeps the five tokens it had: the rest of the price has to come in.
    expect(await s.during(waiting)).toMatchObject({ code: "quota_exhausted", limit: 100 });
    await s.clock.advance(100);
    expect(await s.during(node.limiter.check("app", "PUT", 1024 * 1024))).toMatchObject({ allowed: true });
  });

  it("that grants more than the new burst: the excess is returned", async () => {
    const s = createSimulation([app({ guaranteed: 0, burst: 5000 })]);
    const node = s.addNode("n1");
    s.store.latencyMs = 10;
    const waiting = node.limiter.check("app", "GET", 0);
    await s.clock.advance(6);
    node.reconfigure({ apps: [app({ guaranteed: 0, burst: 10 })] });
    expect(await s.during(waiting)).toMatchObject({ allowed: true, limit: 10 });
    expect(node.limiter.balances()[0]!.balance).toBeLessThanOrEqual(10);
    await s.during(node.limiter.close());
    const books = await s.quota.inspect(app({ guaranteed: 0, burst: 10 }));
    expect({ spent: books.spent, out: books.granted - books.returned }).toEqual({ spent: 1, out: 1 });
  });
});

describe("an app that is removed", () => {
  const other = limitedApp({ id: "other" });
  const books = async (s: Simulation) => {
    const { granted, spent, returned } = await s.quota.inspect(app());
    return { granted, spent, returned };
  };

  it("its waiters are decided under the new limits: by the default app, or as unknown", async () => {
    for (const [rest, expected] of [
      [{ apps: [fallback] }, { allowed: true, app: "default" }],
      [
        { apps: [other], unknownApps: "reject" as const },
        { allowed: false, code: "unknown_app", app: "" },
      ],
    ] as const) {
      const s = createSimulation([app()]);
      const node = s.addNode("n1");
      const waiting = [0, 1, 2].map(() => node.limiter.check("app", "GET", 0));
      node.reconfigure({ ...rest, apps: [...rest.apps] });
      for (const made of waiting) expect(await s.during(made)).toMatchObject(expected);
      await s.clock.advance(2_000);
      await s.during(node.limiter.close());
      expect(await books(s)).toMatchObject({ spent: 0 });
    }
  });

  it("admits no more requests, returns its tokens, and its exchanges are charged when they end", async () => {
    const s = createSimulation([app({ guaranteed: 0 })]);
    const node = s.addNode("n1");
    const running = await s.during(node.limiter.check("app", "GET", 0));
    await s.clock.advance(20);
    expect(node.limiter.balances()[0]!.balance).toBeGreaterThan(0);
    node.reconfigure({ apps: [other], unknownApps: "reject" });
    expect(node.limiter.check("app", "GET", 0)).toMatchObject({ allowed: false, code: "unknown_app" });
    await s.clock.advance(500);
    const first = await books(s);
    expect(first).toMatchObject({ spent: 1, returned: first.granted - 1 });
    node.limiter.settle(running, 0, 1024 * 1024);
    await s.clock.advance(500);
    const second = await books(s);
    expect(second.spent).toBe(17);
    expect(second.granted - second.returned).toBe(17);
    expect(node.limiter.balances().map((one) => one.app)).toEqual(["other"]);
  });

  it("and configured again: its counters continue, so that nothing is granted or charged twice", async () => {
    const s = createSimulation([app({ guaranteed: 0 })]);
    const node = s.addNode("n1");
    const spend = async (requests: number) => {
      for (let i = 0; i < requests; i++) expect((await s.during(node.limiter.check("app", "GET", 0))).code).toBe("ok");
    };
    await spend(100);
    node.reconfigure({ apps: [other] });
    await s.clock.advance(2_000);
    node.reconfigure({ apps: [app({ guaranteed: 0 })] });
    await spend(50);
    node.reconfigure({ apps: [other] });
    // Back before it has left.
    node.reconfigure({ apps: [app({ guaranteed: 0 })] });
    await spend(50);
    await s.during(node.limiter.close());
    const { granted, spent, returned } = await books(s);
    expect({ spent, out: granted - returned }).toEqual({ spent: 200, out: 200 });
    expect((await s.quota.inspect(app({ guaranteed: 0 }))).tokens).toBe(800);
  });

  it("during a store failure: what it spent without the store is charged after recovery", async () => {
    const s = createSimulation([app({ onStoreFailure: "open" })], {}, { failOpenTokens: 50 });
    const node = s.addNode("n1");
    s.store.mode = "refusing";
    s.load(node, "app", 100, 3_000);
    await s.clock.advance(3_000);
    const spent = node.admitted();
    expect(spent).toBeGreaterThan(50);
    node.reconfigure({ apps: [other], unknownApps: "reject" });
    await s.clock.advance(1_000);
    s.store.mode = "up";
    await s.clock.advance(3_000);
    expect(await books(s)).toEqual({ granted: spent, spent, returned: 0 });
  });
});

describe("other settings", () => {
  it("the capacity and rate of the cluster change with another quota on the same store", async () => {
    const s = createSimulation([app()], { capacity: 100_000, rate: 100_000 });
    const node = s.addNode("n1");
    s.load(node, "app", 900, 20_000);
    await s.clock.advance(3_000);
    expect(all([node], 0).every(({ allowed }) => allowed)).toBe(true);
    node.reconfigure({ cluster: { capacity: 100, rate: 100 } });
    // The lease that was out is spent first.
    await s.clock.advance(2_000);
    const from = s.clock.now();
    await s.clock.advance(10_000);
    expect(node.admitted(from, from + 10_000)).toBeLessThanOrEqual(100 + 100 * 10);
    expect(new Set(all([node], from).map(({ code }) => code))).toEqual(new Set(["ok", "cluster_exhausted"]));
  });

  it("the timeout applies to requests that already wait; so do the fail-open tokens", async () => {
    const s = createSimulation([app({ onStoreFailure: "open" })], {}, { timeoutMs: 10_000, failOpenTokens: 0 });
    const node = s.addNode("n1");
    s.store.mode = "hanging";
    const waiting = node.limiter.check("app", "GET", 0);
    node.reconfigure({ timeoutMs: 200, failOpenTokens: 10 });
    const asked = s.clock.now();
    expect(await s.during(waiting)).toMatchObject({ allowed: true, source: "without_store" });
    expect(s.clock.now() - asked).toBeLessThanOrEqual(400);
  });

  it("a new app has its own bucket; unlisted apps share the default or are refused", async () => {
    const s = createSimulation([fallback]);
    const node = s.addNode("n1");
    expect(await s.during(node.limiter.check("new", "GET", 0))).toMatchObject({ app: "default" });
    node.reconfigure({ apps: [fallback, limitedApp({ id: "new", burst: 7 })] });
    expect(await s.during(node.limiter.check("new", "GET", 0))).toMatchObject({ app: "new", limit: 7 });
    node.reconfigure({ unknownApps: "reject" });
    expect(node.limiter.check("stranger", "GET", 0)).toMatchObject({ code: "unknown_app" });
  });

  it("learned sizes stay, and a dry run starts and ends with the next request", async () => {
    const s = createSimulation([app({ burst: 20 })]);
    const node = s.addNode("n1");
    const made = await s.during(node.limiter.check("app", "GET", 0));
    node.limiter.settle(made, 0, 1024 * 1024);
    node.reconfigure({ apps: [app({ burst: 20, guaranteed: 1, dryRun: true })] });
    const dry = await s.during(node.limiter.check("app", "GET", 0));
    expect(dry).toMatchObject({ cost: 9, allowed: true, dryRun: true, code: "quota_exhausted" });
    node.reconfigure({ apps: [app({ burst: 20, guaranteed: 1 })] });
    expect(await s.during(node.limiter.check("app", "GET", 0))).toMatchObject({ allowed: false, dryRun: false });
  });

  it("after close nothing changes, and requests get store_unavailable", async () => {
    const s = createSimulation([app({ onStoreFailure: "open" })]);
    const node = s.addNode("n1");
    await s.during(node.limiter.close());
    node.reconfigure({ apps: [fallback] });
    expect(node.limiter.check("app", "GET", 0)).toMatchObject({ allowed: false, code: "store_unavailable" });
  });
});
