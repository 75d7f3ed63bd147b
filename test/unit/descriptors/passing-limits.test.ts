/** Buckets come and go with the values that clients send: bounded here, forgotten in the store, and never a way around a limit. */
import { describe, expect, it } from "vitest";
import { limitedApp } from "../../support/simulation.js";
import { createBookWorld, of, passed } from "./book-world.js";
import { domain, limit, rule } from "./rule-examples.js";

const users = (perUnit: number, unit: "hour" | "second" = "hour") => domain(rule("user", limit(perUnit, unit)));

async function ledgerApps(world: ReturnType<typeof createBookWorld>): Promise<number> {
  let apps = 0;
  for (const { node } of await world.simulation.quota.nodes())
    apps += (await world.simulation.quota.ledger(node)).apps.length;
  return apps;
}

describe("a bucket that nobody asks for", () => {
  it("is let go, here and in the node's ledger, and is what it was when it comes back", async () => {
    const world = createBookWorld({ domains: [users(5)] });
    const [node] = world.nodes;
    await passed(3, () => node!.ask("user=ann"));
    await passed(9, (i) => node!.ask(`user=${i}`));
    expect([node!.limiter.limits.count(), await ledgerApps(world)]).toEqual([10, 10]);
    await world.pass(65_000);
    expect([node!.limiter.limits.count(), await ledgerApps(world)]).toEqual([0, 0]);
    expect(node!.book.stats().buckets).toBe(0);
    expect(await passed(9, () => node!.ask("user=ann"))).toBe(2);
  });

  it("whose last word got no answer: nothing is charged twice, whether or not the store heard it", async () => {
    for (const mode of ["mute", "refusing"] as const) {
      const world = createBookWorld({ domains: [users(10)] });
      const [node] = world.nodes;
      await passed(4, () => node!.ask("user=ann"));
      await world.pass(58_000);
      world.simulation.store.mode = mode;
      await world.pass(10_000);
      // It comes back while nobody knows what the store has heard.
      const waiting = node!.ask("user=ann");
      await world.pass(200);
      world.simulation.store.mode = "up";
      await world.pass(10_000);
      expect(await waiting).toMatchObject({ allowed: false, code: "store_unavailable" });
      expect(await passed(20, () => node!.ask("user=ann"))).toBe(6);
      await world.pass(70_000);
      expect(await ledgerApps(world)).toBe(0);
    }
  });

  it("is not let go while a request waits for it", async () => {
    const world = createBookWorld({ domains: [users(5)] });
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

describe("more values than there is room for", () => {
  it("share one bucket per rule: no more memory, and no free pass", async () => {
    const world = createBookWorld({ domains: [users(2)], maxValues: 10 });
    const [node] = world.nodes;
    expect(await passed(200, (i) => node!.ask(`user=${i}`))).toBe(10 + 2);
    expect(node!.limiter.limits.count()).toBe(11);
    expect(node!.book.stats()).toEqual({ rules: 1, buckets: 11, overflowed: 190 });
    // Those who had a bucket keep it.
    expect(await passed(3, () => node!.ask("user=3"))).toBe(1);
  });

  it("have room again as soon as others have not been asked for", async () => {
    const world = createBookWorld({ domains: [users(2)], maxValues: 10 });
    const [node] = world.nodes;
    await passed(10, (i) => node!.ask(`user=${i}`));
    await world.pass(5_000);
    expect(await passed(20, (i) => node!.ask(`user=new-${i}`))).toBe(10 + 2);
  });

  it("do not pile up while the store is away", async () => {
    const open = limit(2, "hour", { onStoreFailure: "open" });
    const world = createBookWorld({ domains: [domain(rule("user", open))], maxValues: 10 });
    const [node] = world.nodes;
    world.simulation.store.mode = "refusing";
    for (let round = 0; round < 20; round++) {
      for (let i = 0; i < 10; i++) await node!.ask(`user=${round}-${i}`);
      await world.pass(2_000);
    }
    expect(node!.limiter.limits.count()).toBeLessThanOrEqual(11);
  });

  it("are named by digests: long and strange ones take no more room, and different ones never share a bucket", async () => {
    const world = createBookWorld({ domains: [domain(rule("a", limit(1), [rule("b", limit(1))]))] });
    const [node] = world.nodes;
    const strange = ["x".repeat(100_000), `${"x".repeat(100_000)}y`, "\u0000", "a b\n{}", "é", "1:v", "__proto__"];
    expect(await passed(strange.length * 2, (i) => node!.ask(`a=${strange[i % strange.length]}`))).toBe(strange.length);
    // Where one ends and the next begins is part of the name.
    const pairs = [
      ["x", "yz"],
      ["xy", "z"],
      ["xyz", ""],
      ["", "xyz"],
    ] as const;
    expect(await passed(8, (i) => node!.ask(`a=${pairs[i % 4]![0]}`, `b=${pairs[i % 4]![1]}`))).toBe(4);
    const [life] = await world.simulation.quota.nodes();
    for (const { app } of (await world.simulation.quota.ledger(life!.node)).apps)
      expect(app).toMatch(/^rate-limit:[\w-]{32}$/);
  });
});

describe("several nodes", () => {
  it("never let more pass together than the limit, and as many where the load is uneven", async () => {
    const world = createBookWorld({ domains: [users(30)] }, 3);
    let count = 0;
    for (let i = 0; i < 200; i++) {
      const node = world.nodes[i % 10 === 0 ? 1 : i % 17 === 0 ? 2 : 0]!;
      if ((await node.ask("user=ann")).allowed) count++;
      await world.pass(30);
    }
    // What one node gives back after a second of silence, another one finds a second later.
    await world.pass(3_000);
    count += await passed(5, () => world.nodes[0]!.ask("user=ann"));
    expect(count).toBeLessThanOrEqual(30);
    expect(count).toBe(30);
  });

  it("find what another one gave back, long before the limit itself would have refilled", async () => {
    const world = createBookWorld({ domains: [domain(rule("user", limit(4, "hour")))] }, 2);
    const [first, second] = world.nodes;
    await first!.ask("user=ann");
    await passed(5, () => second!.ask("user=ann"));
    await first!.askAll([{ ...of("user=ann"), negative: true, hits: 1 }]);
    await world.pass(4_000);
    expect(await passed(5, () => second!.ask("user=ann"))).toBeGreaterThanOrEqual(1);
  });
});

describe("a limit of many per second", () => {
  it("is decided from the lease: next to no calls", async () => {
    const world = createBookWorld({ domains: [users(1_000, "second")] });
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
