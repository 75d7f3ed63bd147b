/** Buckets of client-chosen values: limited in number on the node, expiring in the store, and no way to bypass a limit. */
import { describe, expect, it } from "vitest";
import { limitedApp } from "../../../support/simulation.js";
import { domain, limit, rule } from "./rule-examples.js";
import { countAllowed, createSimulatedNodes, of } from "./simulated-nodes.js";

const users = (perUnit: number, unit: "hour" | "second" = "hour") => domain(rule("user", limit(perUnit, unit)));

async function ledgerApps(world: ReturnType<typeof createSimulatedNodes>): Promise<number> {
  let apps = 0;
  for (const { node } of await world.simulation.quota.nodes())
    apps += (await world.simulation.quota.ledger(node)).apps.length;
  return apps;
}

describe("an idle bucket", () => {
  it("is released on the node and in its ledger, and keeps its state in the store", async () => {
    const world = createSimulatedNodes({ domains: [users(5)] });
    const [node] = world.nodes;
    await countAllowed(3, () => node!.ask("user=ann"));
    await countAllowed(9, (i) => node!.ask(`user=${i}`));
    expect([node!.limiter.limits.count(), await ledgerApps(world)]).toEqual([10, 10]);
    await world.pass(305_000);
    expect([node!.limiter.limits.count(), await ledgerApps(world)]).toEqual([0, 0]);
    expect(node!.descriptors.stats().buckets).toBe(0);
    expect(await countAllowed(9, () => node!.ask("user=ann"))).toBe(2);
  });

  it("is not charged twice if its final report gets no reply, whether or not the store received it", async () => {
    for (const mode of ["mute", "refusing"] as const) {
      const world = createSimulatedNodes({ domains: [users(10)] });
      const [node] = world.nodes;
      await countAllowed(4, () => node!.ask("user=ann"));
      await world.pass(298_000);
      world.simulation.store.mode = mode;
      await world.pass(10_000);
      // It is used again before it is known whether the store has received the report.
      const waiting = node!.ask("user=ann");
      await world.pass(200);
      world.simulation.store.mode = "up";
      await world.pass(10_000);
      expect(await waiting).toMatchObject({ allowed: false, code: "store_unavailable" });
      expect(await countAllowed(20, () => node!.ask("user=ann"))).toBe(6);
      await world.pass(310_000);
      expect(await ledgerApps(world)).toBe(0);
    }
  });

  it("is not released while a request waits for it", async () => {
    const world = createSimulatedNodes({ domains: [users(5)] });
    const [node] = world.nodes;
    await node!.ask("user=ann");
    const lease = node!.limiter.limits.enter(policy);
    world.simulation.store.mode = "hanging";
    const made = node!.limiter.limits.take(lease, 1);
    expect(node!.limiter.limits.letGo(lease)).toBe(false);
    await world.pass(3_000);
    expect(await made).toMatchObject({ code: "store_unavailable" });
    expect(node!.limiter.limits.letGo(lease)).toBe(true);
  });
});

const policy = limitedApp({ id: "rate-limit:x", guaranteed: 1, burst: 5, fillSeconds: 5 });

describe("values above the maximum", () => {
  it("share one bucket per rule: they neither grow the memory nor bypass the limit", async () => {
    const world = createSimulatedNodes({ domains: [users(2)], maxValues: 10 });
    const [node] = world.nodes;
    expect(await countAllowed(200, (i) => node!.ask(`user=${i}`))).toBe(10 + 2);
    expect(node!.limiter.limits.count()).toBe(10);
    expect(node!.descriptors.stats()).toEqual({ rules: 1, buckets: 11, overflowed: 190 });
    // Existing buckets stay.
    expect(await countAllowed(3, () => node!.ask("user=3"))).toBe(1);
  });

  it("get their own buckets again when others are idle", async () => {
    const world = createSimulatedNodes({ domains: [users(2)], maxValues: 10 });
    const [node] = world.nodes;
    await countAllowed(10, (i) => node!.ask(`user=${i}`));
    await world.pass(5_000);
    await countAllowed(20, (i) => node!.ask(`user=new-${i}`));
    await world.pass(2_000);
    // There was no room: the least recently used half has left.
    expect(await countAllowed(5, (i) => node!.ask(`user=newer-${i}`))).toBe(5);
  });

  it("get their own buckets when others are idle, also if another table has values", async () => {
    const world = createSimulatedNodes({ domains: [users(2)], maxValues: 10 });
    const [node] = world.nodes;
    for (let i = 0; i < 5; i++) node!.limiter.limits.enter({ ...policy, id: `rate-limit:other-${i}` });
    await countAllowed(5, (i) => node!.ask(`user=${i}`));
    await world.pass(5_000);
    await countAllowed(20, (i) => node!.ask(`user=new-${i}`));
    await world.pass(2_000);
    expect(await countAllowed(3, (i) => node!.ask(`user=newer-${i}`))).toBe(3);
  });

  it("do not accumulate while the store is unavailable", async () => {
    const open = limit(2, "hour", { onStoreFailure: "open" });
    const world = createSimulatedNodes({ domains: [domain(rule("user", open))], maxValues: 10 });
    const [node] = world.nodes;
    world.simulation.store.mode = "refusing";
    for (let round = 0; round < 20; round++) {
      for (let i = 0; i < 10; i++) await node!.ask(`user=${round}-${i}`);
      await world.pass(2_000);
    }
    expect(node!.limiter.limits.count()).toBeLessThanOrEqual(11);
  });

  it("have digests as ids: long values take no more memory, and different values never share a bucket", async () => {
    const world = createSimulatedNodes({ domains: [domain(rule("a", limit(1), [rule("b", limit(1))]))] });
    const [node] = world.nodes;
    const strange = ["x".repeat(100_000), `${"x".repeat(100_000)}y`, "\u0000", "a b\n{}", "é", "1:v", "__proto__"];
    expect(await countAllowed(strange.length * 2, (i) => node!.ask(`a=${strange[i % strange.length]}`))).toBe(
      strange.length,
    );
    // The boundaries between values are part of the name.
    const pairs = [
      ["x", "yz"],
      ["xy", "z"],
      ["xyz", ""],
      ["", "xyz"],
    ] as const;
    expect(await countAllowed(8, (i) => node!.ask(`a=${pairs[i % 4]![0]}`, `b=${pairs[i % 4]![1]}`))).toBe(4);
    const [life] = await world.simulation.quota.nodes();
    for (const { app } of (await world.simulation.quota.ledger(life!.node)).apps)
      expect(app).toMatch(/^rate-limit:[\w-]{32}$/);
  });
});

describe("several nodes", () => {
  it("together allow exactly the limit, also with uneven load", async () => {
    const world = createSimulatedNodes({ domains: [users(30)] }, 3);
    let count = 0;
    for (let i = 0; i < 200; i++) {
      const node = world.nodes[i % 10 === 0 ? 1 : i % 17 === 0 ? 2 : 0]!;
      if ((await node.ask("user=ann")).allowed) count++;
      await world.pass(30);
    }
    // A node returns idle tokens after one second. Another node asks for them one second later.
    await world.pass(3_000);
    count += await countAllowed(5, () => world.nodes[0]!.ask("user=ann"));
    expect(count).toBeLessThanOrEqual(30);
    expect(count).toBe(30);
  });

  it("use tokens that another node gave back, long before the bucket refills", async () => {
    const world = createSimulatedNodes({ domains: [domain(rule("user", limit(4, "hour")))] }, 2);
    const [first, second] = world.nodes;
    await first!.ask("user=ann");
    await countAllowed(5, () => second!.ask("user=ann"));
    await first!.askAll([{ ...of("user=ann"), negative: true, hits: 1 }]);
    await world.pass(4_000);
    expect(await countAllowed(5, () => second!.ask("user=ann"))).toBeGreaterThanOrEqual(1);
  });
});

describe("a limit with a high rate", () => {
  it("is decided from the lease, with few store calls", async () => {
    const world = createSimulatedNodes({ domains: [users(1_000, "second")] });
    const [node] = world.nodes;
    await node!.ask("user=ann");
    const before = world.simulation.store.calls;
    let count = 0;
    for (let i = 0; i < 1_000; i++) {
      if ((await node!.ask("user=ann")).allowed) count++;
      await world.pass(2);
    }
    expect(count).toBe(1_000);
    expect(world.simulation.store.calls - before).toBeLessThan(50);
  });
});
