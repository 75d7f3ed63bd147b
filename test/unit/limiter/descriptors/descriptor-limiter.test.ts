/** Decisions about descriptors: limits, replacement, shadow and quota mode, metadata, negative hits, and that refusals take nothing. */
import { describe, expect, it } from "vitest";
import { domain, limit, rule } from "./rule-examples.js";
import { countAllowed, createSimulatedNodes, of } from "./simulated-nodes.js";

const one = (...rules: ReturnType<typeof rule>[]) => {
  const { nodes, pass } = createSimulatedNodes({ domains: [domain(...rules)] });
  return { node: nodes[0]!, pass };
};

describe("a limit", () => {
  it("allows its burst, then one request per refilled token", async () => {
    const { node, pass } = one(rule("api", limit(6, "minute")));
    expect(await countAllowed(10, () => node.ask("api=x"))).toBe(6);
    const refused = await node.ask("api=x");
    expect(refused).toMatchObject({ allowed: false, code: "quota_exhausted" });
    expect(refused.statuses[0]).toMatchObject({ remaining: 0, limit: { name: "", perUnit: 6, unit: "minute" } });
    expect(refused.statuses[0]!.retryAfterMs).toBeGreaterThan(9_000);
    expect(refused.statuses[0]!.retryAfterMs).toBeLessThanOrEqual(10_000);
    expect(refused.statuses[0]!.resetMs).toBe(60_000);
    await pass(10_000);
    expect(await countAllowed(3, () => node.ask("api=x"))).toBe(1);
  });

  it("reports the remaining tokens", async () => {
    const { node } = one(rule("api", limit(5, "hour", { name: "calls" })));
    const { statuses, code } = await node.ask("api=x");
    expect(code).toBe("ok");
    expect(statuses).toMatchObject([
      { allowed: true, remaining: 4, resetMs: 720_000, retryAfterMs: 0, unlimited: false },
    ]);
    expect(statuses[0]?.limit).toMatchObject({ name: "calls", perUnit: 5, unit: "hour" });
  });

  it("of zero refuses everything without a store call", async () => {
    const world = createSimulatedNodes({ domains: [domain(rule("banned", limit(0, "second")))] });
    const before = world.simulation.store.calls;
    expect(await world.nodes[0]!.ask("banned=x")).toMatchObject({ allowed: false, code: "cost_exceeds_capacity" });
    expect(world.simulation.store.calls).toBe(before);
  });

  it("has one bucket per value, or one for all values of a shared pattern", async () => {
    const { node } = one(rule("user", limit(2)), rule("file=a*", limit(2), [], true), rule("page=a*", limit(2)));
    expect(await countAllowed(6, (i) => node.ask(`user=${i % 2}`))).toBe(4);
    expect(await countAllowed(6, (i) => node.ask(`file=a${i}`))).toBe(2);
    expect(await countAllowed(6, (i) => node.ask(`page=a${i % 2}`))).toBe(4);
  });

  it("has one bucket per value of the parent entries", async () => {
    const { node } = one(rule("user", undefined, [rule("path=/a", limit(1))]));
    expect(await countAllowed(4, (i) => node.ask(`user=${i % 2}`, "path=/a"))).toBe(2);
  });

  it("takes the hits of the request, and refuses more than its capacity without a retry time", async () => {
    const { node } = one(rule("api", limit(10)));
    expect(await node.askAll([of("api=x")], 7)).toMatchObject({ allowed: true, statuses: [{ remaining: 3 }] });
    expect(await node.askAll([{ ...of("api=x"), hits: 3 }], 7)).toMatchObject({ allowed: true });
    for (const hits of [11, 2 ** 32 - 1, 1e19]) {
      const { statuses, code } = await node.askAll([of("api=y")], hits);
      expect([code, statuses[0]?.retryAfterMs]).toEqual(["cost_exceeds_capacity", 0]);
    }
    expect(await node.askAll([of("api=y")], 10)).toMatchObject({ allowed: true });
  });

  it("is read with zero hits, which take nothing", async () => {
    const { node } = one(rule("api", limit(2)));
    for (let i = 0; i < 5; i++)
      expect(await node.askAll([{ ...of("api=x"), hits: 0 }])).toMatchObject({ allowed: true });
    expect(await countAllowed(3, () => node.ask("api=x"))).toBe(2);
    expect(await node.askAll([{ ...of("api=x"), hits: 0 }])).toMatchObject({ allowed: false, code: "quota_exhausted" });
  });
});

describe("no limit", () => {
  it("applies if no rule matches or the domain is unknown, even with an override", async () => {
    const { node } = one(rule("api=x", limit(1)));
    const free = { allowed: true, code: "ok", statuses: [{ allowed: true, unlimited: false, remaining: 0 }] };
    expect(await node.ask("api=y")).toMatchObject(free);
    expect((await node.ask("api=y")).statuses[0]).not.toHaveProperty("limit");
    const own = { ...of("api=x"), override: { perUnit: 0, unit: "second" as const } };
    expect(await node.askAll([own], 1, "elsewhere")).toMatchObject(free);
  });

  it("applies if the rule is unlimited", async () => {
    const { node } = one(rule("api=x", limit(0, "second", { unlimited: true })), rule("api", limit(1)));
    expect(await countAllowed(50, () => node.ask("api=x"))).toBe(50);
    expect((await node.ask("api=x")).statuses[0]).toMatchObject({ allowed: true, unlimited: true });
  });
});

describe("an override", () => {
  it("replaces the limit of the rule, has its own bucket, and may change with each request", async () => {
    const { node } = one(rule("api", limit(1)));
    const own = (perUnit: number) => ({ ...of("api=x"), override: { perUnit, unit: "hour" as const } });
    expect(await countAllowed(5, () => node.askAll([own(3)]))).toBe(3);
    expect(await countAllowed(2, () => node.ask("api=x"))).toBe(1);
    // Used tokens stay used, whether the limit decreases or increases.
    expect(await countAllowed(2, () => node.askAll([own(2)]))).toBe(0);
    expect(await countAllowed(2, () => node.askAll([own(100)]))).toBe(0);
  });
});

describe("several descriptors", () => {
  it("must all allow the request; if one refuses, nothing is taken from the others", async () => {
    const { node } = one(rule("small", limit(2)), rule("large", limit(100)));
    const both = [of("large=x"), of("small=x")];
    expect(await countAllowed(20, () => node.askAll(both))).toBe(2);
    const refused = await node.askAll(both);
    expect(refused.statuses.map(({ allowed }) => allowed)).toEqual([true, false]);
    expect(refused.statuses[0]).toMatchObject({ remaining: 98 });
    expect(await node.ask("large=x")).toMatchObject({ statuses: [{ remaining: 97 }] });
  });

  it("lose nothing if the store refuses one and grants the other in the same reply", async () => {
    const world = createSimulatedNodes({ domains: [domain(rule("small", limit(1)), rule("large", limit(100)))] }, 2);
    const [first, second] = world.nodes;
    await first!.ask("small=x");
    // The second node has no lease of either: it requests both in one message.
    const refused = await second!.askAll([of("large=x"), of("small=x")]);
    expect(refused).toMatchObject({
      allowed: false,
      statuses: [{ allowed: true, remaining: 100 }, { allowed: false }],
    });
    // The second node keeps what it was granted, until the first one needs it.
    expect(await countAllowed(101, () => first!.ask("large=x"))).toBe(100);
  });

  it("cause few store calls while one limit refuses a flood", async () => {
    const world = createSimulatedNodes({ domains: [domain(rule("small", limit(1)), rule("large", limit(100)))] });
    const [node] = world.nodes;
    await node!.askAll([of("large=x"), of("small=x")]);
    await node!.ask("small=x");
    await world.pass(3_000);
    await node!.ask("small=x");
    const before = world.simulation.store.calls;
    for (let i = 0; i < 500; i++) await node!.askAll([of("large=x"), of("small=x")]);
    expect(world.simulation.store.calls - before).toBeLessThan(5);
  });
});

describe("a limit that replaces another", () => {
  it("applies alone: nothing is taken from the limit that it replaces", async () => {
    const special = limit(3, "hour", { replaces: ["general"] });
    const { node } = one(rule("write", limit(1, "hour", { name: "general" })), rule("path=/up", special));
    const both = [of("write=x"), of("path=/up")];
    expect(await countAllowed(5, () => node.askAll(both))).toBe(3);
    expect((await node.askAll(both)).statuses[0]).not.toHaveProperty("limit");
    expect(await countAllowed(3, () => node.ask("write=x"))).toBe(1);
  });

  it("may be unlimited", async () => {
    const free = limit(0, "second", { unlimited: true, replaces: ["general"] });
    const { node } = one(rule("write", limit(1, "hour", { name: "general" })), rule("path=/up", free));
    expect(await countAllowed(5, () => node.askAll([of("write=x"), of("path=/up")]))).toBe(5);
  });
});

describe("in shadow mode", () => {
  it("a limit counts and reports, but refuses nothing", async () => {
    const { node } = one(rule("api", limit(2, "hour", { shadow: true })));
    expect(await countAllowed(5, () => node.ask("api=x"))).toBe(5);
    const { statuses } = await node.ask("api=x");
    expect(statuses[0]).toMatchObject({ allowed: true, code: "quota_exhausted", remaining: 0, shadow: true });
  });
});

describe("in quota mode", () => {
  it("a request is refused only if all its quotas refuse", async () => {
    const quota = (perUnit: number) => limit(perUnit, "hour", { quota: true });
    const { node } = one(rule("a", quota(1)), rule("b", quota(3)), rule("hard", limit(4)));
    const both = [of("a=x"), of("b=x")];
    expect(await countAllowed(6, () => node.askAll(both))).toBe(3);
    const last = await node.askAll([...both, of("hard=x")]);
    expect(last).toMatchObject({
      allowed: false,
      statuses: [{ allowed: false }, { allowed: false }, { allowed: true }],
    });
  });
});

describe("a check without hits", () => {
  it("is over limit after this node has spent the tokens, before it has reported them", async () => {
    const { node, pass } = one(rule("api", limit(2, "minute")));
    const look = () => node.askAll([{ ...of("api=x"), hits: 0 }], 1);
    expect(await look()).toMatchObject({ allowed: true, statuses: [{ remaining: 2 }] });
    expect(await node.ask("api=x")).toMatchObject({ allowed: true });
    expect(await look()).toMatchObject({ allowed: true, statuses: [{ remaining: 1 }] });
    expect(await node.ask("api=x")).toMatchObject({ allowed: true });
    expect(await look()).toMatchObject({ allowed: false, code: "quota_exhausted", statuses: [{ remaining: 0 }] });
    await pass(31_000);
    expect(await look()).toMatchObject({ allowed: true });
  });

  it("is allowed while another node holds tokens that were not spent", async () => {
    const { nodes } = createSimulatedNodes({ domains: [domain(rule("api", limit(10, "hour")))] }, 2);
    const [first, second] = nodes as [(typeof nodes)[0], (typeof nodes)[0]];
    expect(await countAllowed(9, () => first!.ask("api=x"))).toBe(9);
    expect(await second!.askAll([{ ...of("api=x"), hits: 0 }], 1)).toMatchObject({ allowed: true });
  });
});

describe("metadata", () => {
  it("of the limits that allow the request is merged; the first value of a name is kept", async () => {
    const withMetadata = (metadata: Record<string, unknown>) => limit(1, "hour", { metadata });
    const { node } = one(
      rule("a", withMetadata({ tier: "gold", deep: { x: 1 } })),
      rule("b", withMetadata({ tier: "iron", deep: { y: 2 } })),
      rule("c", limit(5)),
    );
    expect((await node.askAll([of("a=1"), of("b=1")])).metadata).toEqual({ tier: "gold", deep: { x: 1, y: 2 } });
    expect(await node.ask("c=1")).not.toHaveProperty("metadata");
    expect(await node.ask("a=1")).not.toHaveProperty("metadata");
  });
});

describe("negative hits", () => {
  it("and zero hits see what another node has taken, and give it back", async () => {
    const world = createSimulatedNodes({ domains: [domain(rule("api", limit(6, "hour")))] }, 2);
    const [first, second] = world.nodes;
    const look = () => second!.askAll([{ ...of("api=x"), hits: 0 }]);
    expect(await countAllowed(4, () => first!.ask("api=x"))).toBe(4);
    await world.pass(1_000);
    const seen = await look();
    expect(seen).toMatchObject({ allowed: true, code: "ok" });
    expect(seen.statuses[0]!.remaining).toBeLessThanOrEqual(2);
    expect(await countAllowed(9, () => first!.ask("api=x"))).toBe(2);
    await world.pass(1_000);
    expect(await look()).toMatchObject({ allowed: false, code: "quota_exhausted", statuses: [{ remaining: 0 }] });
    // More than was taken fills the bucket, and no more.
    const back = (hits: number) => second!.askAll([{ ...of("api=x"), negative: true, hits }]);
    expect(await back(3)).toMatchObject({ allowed: true, code: "ok", statuses: [{ remaining: 3 }] });
    expect(await look()).toMatchObject({ allowed: true, statuses: [{ remaining: 3 }] });
    expect(await countAllowed(9, () => second!.ask("api=x"))).toBe(3);
    await back(1e19);
    await world.pass(2_000);
    const passed =
      (await countAllowed(9, () => first!.ask("api=x"))) + (await countAllowed(9, () => second!.ask("api=x")));
    expect(passed).toBe(6);
  });

  it("are not lost silently: without the store the answer is that it is unavailable", async () => {
    const world = createSimulatedNodes({ domains: [domain(rule("api", limit(6, "hour")))] }, 2);
    await world.nodes[0]!.ask("api=x");
    world.simulation.store.mode = "refusing";
    const back = await world.nodes[1]!.askAll([{ ...of("api=x"), negative: true, hits: 1 }]);
    expect(back).toMatchObject({ allowed: false, code: "store_unavailable" });
  });

  it("give back tokens, up to the capacity", async () => {
    const { node } = one(rule("api", limit(5)));
    const back = (hits: number) => node.askAll([{ ...of("api=x"), negative: true, hits }]);
    expect(await countAllowed(9, () => node.ask("api=x"))).toBe(5);
    // Tokens that the store counts as spent go back to the bucket; the next request takes them from there.
    expect(await back(2)).toMatchObject({ allowed: true, code: "ok", statuses: [{ allowed: true }] });
    expect(await countAllowed(9, () => node.ask("api=x"))).toBe(2);
    await back(1_000_000);
    expect(await countAllowed(9, () => node.ask("api=x"))).toBe(5);
  });
});

describe("the domain tollgate", () => {
  it("refuses nothing of an app on a dry run, with or without the store", async () => {
    const { nodes, simulation, pass } = createSimulatedNodes({});
    const trial = () => nodes[0]!.askAll([of("app_id=trial")], 1, "tollgate");
    expect(await countAllowed(6, trial)).toBe(6);
    expect((await trial()).statuses[0]).toMatchObject({ allowed: true, code: "quota_exhausted", shadow: true });
    simulation.store.mode = "refusing";
    await pass(10_000);
    expect(await countAllowed(6, trial)).toBe(6);
    expect((await trial()).statuses[0]).toMatchObject({ allowed: true, code: "store_unavailable" });
  });

  it("takes tokens of the app that the entry names, and gives them back", async () => {
    const { node } = one();
    const app = (id: string) => node.askAll([of(`app_id=${id}`)], 1, "tollgate");
    expect(await countAllowed(5, () => app("video"))).toBe(3);
    expect(await node.askAll([{ ...of("app_id=video"), negative: true, hits: 2 }], 1, "tollgate")).toMatchObject({
      allowed: true,
    });
    expect(await countAllowed(5, () => app("video"))).toBe(2);
    expect((await app("video")).statuses[0]).toMatchObject({
      limit: { name: "video", perUnit: 1, unit: "second", burst: 3 },
    });
  });

  it("refuses unknown apps and invalid ids", async () => {
    const { node } = one();
    const code = async (id: string) => (await node.askAll([of(`app_id=${id}`)], 1, "tollgate")).code;
    expect(await code("other")).toBe("unknown_app");
    expect(await code("a{b}")).toBe("invalid_identity");
    expect(await code("")).toBe("invalid_identity");
    expect(await node.askAll([of("else=x")], 1, "tollgate")).toMatchObject({ allowed: true });
  });
});

describe("changed rules", () => {
  it("apply from the next request on; used tokens of limits that stay are kept", async () => {
    const { node } = one(rule("api", limit(5)), rule("old", limit(1)));
    await countAllowed(4, () => node.ask("api=x"));
    await node.ask("old=x");
    const settings = (...rules: ReturnType<typeof rule>[]) => ({ domains: [domain(...rules)], maxValues: 10 });
    node.descriptors.reconfigure(settings(rule("api", limit(5)), rule("new", limit(1))));
    expect(await countAllowed(3, () => node.ask("api=x"))).toBe(1);
    expect(await countAllowed(3, () => node.ask("old=x"))).toBe(3);
    expect(await countAllowed(3, () => node.ask("new=x"))).toBe(1);
    node.descriptors.reconfigure(settings(rule("api", limit(2))));
    expect(await countAllowed(3, () => node.ask("api=x"))).toBe(0);
    expect((await node.ask("api=x")).statuses[0]).toMatchObject({ limit: { perUnit: 2 } });
  });
});
