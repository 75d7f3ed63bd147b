/** Limits on any key: matched, taken together, exact over several nodes, bounded in number. Simulated nodes. */
import { describe, expect, it } from "vitest";
import type { RequestAttributes } from "../../../src/limit-rules/limit-rules.js";
import type { Decision } from "../../../src/limiter/limiter.js";
import { compileLimits, type LimitOptions } from "../../../src/limiter/limits/limit-options.js";
import { createSimulation, limitedApp, type SimulatedNode, type Simulation } from "../../support/simulation.js";

const app = limitedApp({ id: "app", guaranteed: 1_000_000, burst: 1_000_000 });

function start(limits: LimitOptions[], { maxValues = 10_000, apps = [app] } = {}) {
  return createSimulation(apps, {}, { limits: compileLimits(limits), maxValues });
}

function attributes(own: Partial<RequestAttributes> & { headers?: Record<string, string[]> } = {}) {
  const { headers = {}, ...rest } = own;
  return {
    app: "app",
    user: "ann",
    method: "GET",
    host: "example.com",
    path: "/",
    address: "192.0.2.1",
    headerCount: (name: string) => Math.min(headers[name]?.length ?? 0, 2),
    header: (name: string) => headers[name]?.[0] ?? "",
    ...rest,
  };
}

type Own = Parameters<typeof attributes>[0];

function check(simulation: Simulation, node: SimulatedNode, own: Own = {}, bytes = 0): Promise<Decision> {
  const request = attributes(own);
  return simulation.during(node.limiter.check(request.app, request.method, bytes, request));
}

async function codes(simulation: Simulation, node: SimulatedNode, requests: Own[]): Promise<string[]> {
  const found: string[] = [];
  for (const own of requests) found.push((await check(simulation, node, own)).code);
  return found;
}

const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

/** Numbers from 0 to below 1, the same in every run. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

describe("a limit", () => {
  it("per user gives each user a bucket", async () => {
    const simulation = start([{ name: "per-user", key: ["user"], rate: "2/min" }]);
    const node = simulation.addNode("n1");
    expect(await codes(simulation, node, times(3, { user: "ann" }))).toEqual(["ok", "ok", "quota_exhausted"]);
    expect(await codes(simulation, node, times(3, { user: "bob" }))).toEqual(["ok", "ok", "quota_exhausted"]);
  });

  it("names itself in the refusal, not the value", async () => {
    const simulation = start([{ name: "per-user", key: ["user"], rate: "1/min" }]);
    const node = simulation.addNode("n1");
    await check(simulation, node);
    const refused = await check(simulation, node);
    expect(refused).toMatchObject({ allowed: false, app: "app", limitName: "per-user" });
    expect(refused.retryAfterMs).toBeGreaterThan(50_000);
  });

  it("per address counts an IPv6 /64 as one, and the prefix that is configured", async () => {
    const simulation = start([{ name: "ip", key: ["ip"], rate: "1/h", ipv4Prefix: 24 }]);
    const node = simulation.addNode("n1");
    const addresses = [
      "2001:db8::1",
      "2001:DB8:0:0:ffff::2",
      "2001:db8:0:1::1",
      "10.1.2.3",
      "::ffff:10.1.2.4",
      "10.1.3.3",
    ];
    expect(
      await codes(
        simulation,
        node,
        addresses.map((address) => ({ address })),
      ),
    ).toEqual(["ok", "quota_exhausted", "ok", "ok", "quota_exhausted", "ok"]);
  });

  it("applies to the requests that it matches, however the path is spelt", async () => {
    const match = { path: ["/login"], method: ["POST"] };
    const simulation = start([{ name: "logins", key: ["ip"], rate: "2/min", match }]);
    const node = simulation.addNode("n1");
    const paths = ["/login", "/%6Cogin", "//login/", "/x/../login?a=b", "/loginx", "/other"];
    expect(
      await codes(
        simulation,
        node,
        paths.map((path) => ({ method: "POST", path })),
      ),
    ).toEqual(["ok", "ok", "quota_exhausted", "quota_exhausted", "ok", "ok"]);
    expect(await codes(simulation, node, [{ method: "GET", path: "/login" }])).toEqual(["ok"]);
  });

  it("matches headers and combines parts of the key", async () => {
    const match = { header: [{ name: "X-Plan", value: "free*" }] };
    const simulation = start([{ name: "free", key: ["app", "header:X-Team"], rate: "1/min", match }]);
    const node = simulation.addNode("n1");
    const of = (plan: string, team: string) => ({ headers: { "x-plan": [plan], "x-team": [team] } });
    const requests = [of("free", "a"), of("free-2", "a"), of("free", "b"), of("paid", "a"), of("paid", "a")];
    expect(await codes(simulation, node, requests)).toEqual(["ok", "quota_exhausted", "ok", "ok", "ok"]);
    const twice = { headers: { "x-plan": ["paid", "free"], "x-team": ["a"] } };
    expect(await codes(simulation, node, [twice])).toEqual(["quota_exhausted"]);
  });

  it("exempts allowed values and refuses denied ones", async () => {
    const lists = { allow: ["10.0.0.0/8"], deny: ["2001:db8::/32"] };
    const simulation = start([{ name: "ip", key: ["ip"], rate: "1/min", ...lists }]);
    const node = simulation.addNode("n1");
    expect(await codes(simulation, node, times(3, { address: "10.9.9.9" }))).toEqual(["ok", "ok", "ok"]);
    expect(await check(simulation, node, { address: "2001:db8::1" })).toMatchObject({ allowed: false, code: "denied" });
  });

  it.each([
    ["a header sent twice", { headers: { "x-key": ["a", "b"] } }],
    ["a control character", { headers: { "x-key": ["a\u0001b"] } }],
    ["1 MB", { headers: { "x-key": ["a".repeat(1_048_576)] } }],
    ["an invalid address", { headers: { "x-key": ["a"] }, address: "" }],
  ])("rejects %s, or counts it as a request without the value", async (_, own) => {
    const limit = { name: "key", key: ["header:X-Key", "ip"], rate: "1/min" };
    const strict = start([limit]);
    expect(await check(strict, strict.addNode("n1"), own)).toMatchObject({ allowed: false, code: "invalid_argument" });
    const lenient = start([{ ...limit, invalidValues: "ignore" }]);
    const node = lenient.addNode("n1");
    expect(await codes(lenient, node, [own, own])).toEqual(["ok", "quota_exhausted"]);
    expect(await codes(lenient, node, [{ headers: { "x-key": ["z"] } }])).toEqual(["ok"]);
  });

  it("in a dry run never refuses", async () => {
    const simulation = start([{ name: "user", key: ["user"], rate: "1/min", deny: ["eve"], dryRun: true }]);
    const node = simulation.addNode("n1");
    await check(simulation, node);
    expect(await check(simulation, node)).toMatchObject({ allowed: true, code: "quota_exhausted", limitName: "user" });
    expect(await check(simulation, node, { user: "eve" })).toMatchObject({ allowed: true, code: "denied" });
  });

  it("without the store follows on_store_failure, and refuses with store_unavailable", async () => {
    const simulation = start([{ name: "user", key: ["user"], rate: "5/min", onStoreFailure: "closed" }], {
      apps: [limitedApp({ id: "app", onStoreFailure: "open" })],
    });
    const node = simulation.addNode("n1");
    simulation.store.mode = "refusing";
    expect(await check(simulation, node)).toMatchObject({
      allowed: false,
      code: "store_unavailable",
      limitName: "user",
    });
  });
});

describe("several limits", () => {
  const both: LimitOptions[] = [
    { name: "user", key: ["user"], rate: "3/h" },
    { name: "ip", key: ["ip"], rate: "5/h" },
  ];

  it("are taken together: a request that one refuses uses nothing of the others", async () => {
    const simulation = start(both);
    const node = simulation.addNode("n1");
    expect(await codes(simulation, node, times(6, {}))).toEqual([...times(3, "ok"), ...times(3, "quota_exhausted")]);
    // The address has two tokens left: the refused requests did not take them.
    expect(await codes(simulation, node, times(3, { user: "bob" }))).toEqual(["ok", "ok", "quota_exhausted"]);
    const { limits } = await check(simulation, node, { user: "bob" });
    expect(limits?.map(({ name, remaining }) => [name, remaining])).toEqual([
      ["user", 1],
      ["ip", 0],
    ]);
  });

  it("do not take tokens of the app if one refuses", async () => {
    const simulation = start([{ name: "user", key: ["user"], rate: "1/h" }], {
      apps: [limitedApp({ id: "app", guaranteed: 0.001, burst: 3 })],
    });
    const node = simulation.addNode("n1");
    expect(await codes(simulation, node, [{}, {}, {}, {}, { user: "b" }, { user: "c" }, { user: "d" }])).toEqual([
      "ok",
      ...times(3, "quota_exhausted"),
      "ok",
      "ok",
      "quota_exhausted",
    ]);
  });

  it("first use of two values costs one store call", async () => {
    const simulation = start(both);
    const node = simulation.addNode("n1");
    await simulation.during(node.limiter.check("app", "GET", 0));
    await simulation.clock.advance(50);
    const before = simulation.store.calls;
    const made = node.limiter.check("app", "GET", 0, attributes({ user: "new", address: "198.51.100.7" }));
    expect((await simulation.during(made)).allowed).toBe(true);
    expect(simulation.store.calls - before).toBe(1);
  });

  it("show the longest wait, and the limit that has it", async () => {
    const simulation = start([
      { name: "user", key: ["user"], rate: "1/min" },
      { name: "ip", key: ["ip"], rate: "1/h" },
    ]);
    const node = simulation.addNode("n1");
    await check(simulation, node);
    await check(simulation, node);
    expect(await check(simulation, node)).toMatchObject({ limitName: "ip" });
  });
});

describe("a limit by cost", () => {
  it("takes the cost of the request and is settled with it", async () => {
    const simulation = start([{ name: "uploads", key: ["user"], rate: "100/h", count: "cost" }]);
    const node = simulation.addNode("n1");
    const quantum = 65_536;
    const made = await check(simulation, node, { method: "PUT" }, 20 * quantum);
    expect(made.limits).toMatchObject([{ name: "uploads", cost: 25 }]);
    // The upload was aborted after half of its bytes, then another one received a large response.
    node.limiter.settle(made, 10 * quantum, 0);
    const other = await check(simulation, node, { method: "PUT" }, 0);
    node.limiter.settle(other, 0, 40 * quantum);
    await simulation.clock.advance(1_000);
    const look = await check(simulation, node, { method: "GET" });
    const spent = 100 - (look.limits?.[0]?.remaining ?? 0) - (look.limits?.[0]?.cost ?? 0);
    expect(spent).toBeGreaterThanOrEqual(15 + 45 - 1);
    expect(spent).toBeLessThanOrEqual(15 + 45);
  });

  it("is settled with the cost that the backend states, as the app is", async () => {
    const simulation = start([{ name: "jobs", key: ["user"], rate: "100/h", count: "cost" }]);
    const node = simulation.addNode("n1");
    for (const [reportedCost, bytes] of [
      [30, 0],
      [-1, 65_536],
      [Number.NaN, 65_536],
      [1e308, 65_536],
    ] as const) {
      const made = await check(simulation, node, { method: "GET" }, 0);
      node.limiter.settle(made, 0, bytes, { reportedCost });
    }
    await simulation.during(node.limiter.close());
    expect((await simulation.quota.inspect(app)).spent).toBe(30 + 3 * 2);
    const bucket = { ...app, id: "limit:jobs:ann", guaranteed: 100 / 3600, burst: 100, fillSeconds: 3600 };
    expect((await simulation.quota.inspect(bucket)).spent).toBe(30 + 3 * 2);
  });

  it("is exact for parallel uploads over two nodes, also if some end early", async () => {
    const quantum = 65_536;
    for (let seed = 1; seed <= 10; seed++) {
      const random = randomNumbers(seed);
      const simulation = start([{ name: "uploads", key: ["user"], rate: "800/h", count: "cost" }]);
      const nodes = [simulation.addNode("n1"), simulation.addNode("n2")];
      await simulation.clock.advance(50);
      const some = seed % 2 === 0;
      let whole = 0;
      let tokens = 0;
      for (let i = 0; i < 28; i++) {
        const { limiter } = nodes[i % 2]!;
        // Every other run, uploads end after a part of their bytes, which is refunded.
        const quanta = some ? Math.floor(81 * random()) : 80;
        simulation.clock.after(300 * random(), () => {
          void Promise.resolve(limiter.check("app", "PUT", 80 * quantum, attributes({ method: "PUT" }))).then(
            (made) => {
              if (!made.allowed) return;
              whole++;
              tokens += 5 + quanta;
              simulation.clock.after(50 * random(), () => limiter.settle(made, quanta * quantum, 0));
            },
          );
        });
      }
      await simulation.clock.advance(3_000);
      // A whole one costs 85.
      if (!some) expect(whole).toBe(9);
      expect(tokens).toBeLessThanOrEqual(800 + 1);
    }
  });

  it("refuses a declared body that its burst can never pay", async () => {
    const simulation = start([{ name: "uploads", key: ["user"], rate: "10/h", count: "cost" }]);
    const made = await check(simulation, simulation.addNode("n1"), { method: "PUT" }, 20 * 65_536);
    expect(made).toMatchObject({
      allowed: false,
      code: "cost_exceeds_capacity",
      limitName: "uploads",
      retryAfterMs: 0,
    });
  });
});

/** Admitted requests beyond burst + rate × time, in the worst window between two admissions. */
function worstExcess(admittedAt: number[], rate: number, burst: number): number {
  let lowest = Number.POSITIVE_INFINITY;
  let worst = Number.NEGATIVE_INFINITY;
  [...admittedAt]
    .sort((a, b) => a - b)
    .forEach((at, sum) => {
      lowest = Math.min(lowest, sum - (rate * at) / 1000);
      worst = Math.max(worst, sum + 1 - (rate * at) / 1000 - lowest - burst);
    });
  return worst;
}

describe("over several nodes", () => {
  async function flood(nodes: number, shares: number[], limit: LimitOptions, perSecond: number, seconds: number) {
    const simulation = start([limit, { name: "ip", key: ["ip"], rate: "1000/s" }]);
    const admitted: number[] = [];
    for (let i = 0; i < nodes; i++) {
      const node = simulation.addNode(`n${i + 1}`);
      const gap = 1000 / (perSecond * (shares[i] ?? 1 / nodes));
      const arrive = () => {
        if (simulation.clock.now() >= seconds * 1000) return;
        simulation.clock.after(gap, arrive);
        void Promise.resolve(node.limiter.check("app", "GET", 0, attributes())).then(({ allowed }) => {
          if (allowed) admitted.push(simulation.clock.now());
        });
      };
      simulation.clock.after(gap, arrive);
    }
    await simulation.clock.advance(seconds * 1000 + 2_000);
    return admitted;
  }

  it.each([
    { rate: "10/s", perSecond: 10, burst: 10 },
    { rate: "100/s", perSecond: 100, burst: 300 },
  ])("with 80/15/5 skew no window of $rate is exceeded, and it is used", async ({ rate, perSecond, burst }) => {
    const admitted = await flood(3, [0.8, 0.15, 0.05], { name: "user", key: ["user"], rate, burst }, perSecond * 3, 8);
    expect(worstExcess(admitted, perSecond, burst)).toBeLessThanOrEqual(1e-6);
    expect(admitted.length).toBeGreaterThanOrEqual((burst + perSecond * 8) * 0.95);
  });

  it("5 per minute across 20 nodes is exact and strands no tokens", async () => {
    const simulation = start([{ name: "logins", key: ["ip"], rate: "5/min" }]);
    const nodes = Array.from({ length: 20 }, (_, i) => simulation.addNode(`n${i + 1}`));
    const found: string[] = [];
    // Each request at another node: tokens that one node holds must reach the others.
    for (const node of nodes) found.push((await check(simulation, node)).code);
    expect(found.filter((code) => code === "ok")).toHaveLength(5);
    expect(found.slice(0, 5)).toEqual(times(5, "ok"));
    await simulation.clock.advance(60_000);
    const later: string[] = [];
    for (const node of nodes) later.push((await check(simulation, node)).code);
    expect(later.filter((code) => code === "ok")).toHaveLength(5);
  });
});

describe("a burst of requests over several nodes", () => {
  it.each([
    { nodes: 2, latencyMs: 1, spreadMs: 20 },
    { nodes: 2, latencyMs: 5, spreadMs: 100 },
    { nodes: 2, latencyMs: 30, spreadMs: 5 },
    { nodes: 5, latencyMs: 3, spreadMs: 60 },
  ])("uses every token of a small limit: $nodes nodes, $latencyMs ms to the store", async (given) => {
    const { nodes: count, latencyMs, spreadMs } = given;
    for (let seed = 1; seed <= 20; seed++) {
      const random = randomNumbers(seed);
      const simulation = start([{ name: "searches", key: ["app"], rate: "100/h" }]);
      simulation.store.latencyMs = latencyMs;
      const nodes = Array.from({ length: count }, (_, i) => simulation.addNode(`n${i + 1}`));
      await simulation.clock.advance(50);
      const starts = nodes.map(() => spreadMs * random());
      let allowed = 0;
      for (let i = 0; i < 130; i++) {
        const { limiter } = nodes[i % count]!;
        // Those of a node arrive almost together.
        const at = starts[i % count]! + 2 * random();
        simulation.clock.after(at, () => {
          void Promise.resolve(limiter.check("app", "GET", 0, attributes())).then((made) => {
            if (made.allowed) allowed++;
          });
        });
      }
      await simulation.clock.advance(3_000);
      expect(`seed ${seed}: ${allowed}`).toBe(`seed ${seed}: 100`);
    }
  });
});

describe("many values", () => {
  it("are bounded: further ones share one bucket, the least recently used leave, and none passes free", async () => {
    const simulation = start([{ name: "user", key: ["user"], rate: "2/min" }], { maxValues: 50 });
    const node = simulation.addNode("n1");
    let admitted = 0;
    for (let i = 0; i < 400; i++) if ((await check(simulation, node, { user: `u${i}` })).allowed) admitted++;
    // 50 values with a bucket each, and the shared one; more only as older ones leave.
    expect(admitted).toBeLessThan(400);
    expect(admitted).toBeGreaterThanOrEqual(50);
    expect(node.limiter.limits.count()).toBeLessThanOrEqual(50);
    await simulation.clock.advance(120_000);
    expect(node.limiter.limits.count()).toBe(0);
    expect(await codes(simulation, node, times(3, { user: "later" }))).toEqual(["ok", "ok", "quota_exhausted"]);
  });

  it.each([
    ["users", "user", (i: number) => ({ user: `invented-${i}`, address: "198.51.100.7" })],
    ["addresses of an IPv6 /48", "ip", (i: number) => ({ address: `2001:db8:7:${i.toString(16)}::1` })],
  ] as const)("a client that invents %s uses up only its own: newcomers have their limit", async (_, key, invented) => {
    const simulation = start([{ name: "limit", key: [key], rate: "2/day" }], { maxValues: 50 });
    const node = simulation.addNode("n1");
    let made = 0;
    const hostile = async (count: number) => {
      const found = await codes(
        simulation,
        node,
        Array.from({ length: count }, () => invented(made++)),
      );
      return found.filter((code) => code === "ok").length;
    };
    await hostile(100);
    for (let i = 0; i < 12; i++) {
      const newcomer = { user: `new-${i}`, address: `203.0.113.${i * 3 + 1}` };
      const seen: string[] = [];
      for (let n = 0; n < 3; n++) {
        seen.push(...(await codes(simulation, node, [newcomer])));
        await hostile(10);
      }
      expect(seen, newcomer.address).toEqual(["ok", "ok", "quota_exhausted"]);
    }
    expect(await hostile(20)).toBeLessThan(20);
    // Those that values share are not values.
    expect(node.limiter.limits.count()).toBeLessThanOrEqual(50);
    await simulation.clock.advance(400_000);
    expect(node.limiter.limits.count()).toBe(0);
  });

  it("a value that was released and returns has what it had", async () => {
    const simulation = start([{ name: "user", key: ["user"], rate: "3/day" }], { maxValues: 10 });
    const node = simulation.addNode("n1");
    expect(await codes(simulation, node, times(2, {}))).toEqual(["ok", "ok"]);
    await simulation.clock.advance(310_000);
    expect(node.limiter.limits.count()).toBe(0);
    expect(await codes(simulation, node, times(2, {}))).toEqual(["ok", "quota_exhausted"]);
  });
});

describe("a new configuration", () => {
  it("applies to existing buckets", async () => {
    const simulation = start([{ name: "user", key: ["user"], rate: "5/h" }]);
    const node = simulation.addNode("n1");
    await check(simulation, node);
    node.reconfigure({ limits: compileLimits([{ name: "user", key: ["user"], rate: "2/h" }]) });
    expect(await codes(simulation, node, times(3, {}))).toEqual(["ok", "ok", "quota_exhausted"]);
    node.reconfigure({ limits: compileLimits([]) });
    expect(await codes(simulation, node, [{}])).toEqual(["ok"]);
  });
});
