/** I8, isolation: whatever other apps and their nodes do, an app within its own rate gets tokens from L1. */
import fc from "fast-check";
import { expect } from "vitest";
import type { BucketLimits } from "../../src/core/app-limits.js";
import { createQuota, type GrantRequest, type Quota } from "../../src/quota/quota.js";
import type { DrivenStore } from "../support/driven-store.js";
import { forEachBackend } from "./backends.js";

const SECOND = 1_000_000;
/** The same histories on all backends, whose replies are compared. */
const seed = Math.floor(Math.random() * 2 ** 31);
const L1 = { capacity: 10_000, rate: 5_000, nodeTtlMs: 3_000 };
const app = (id: string, guaranteed: number, burst: number, more: Partial<BucketLimits> = {}): BucketLimits => ({
  ...{ id, guaranteed, burst, priority: 2, borrow: false, ...more },
});
const DEMO = app("demo", 100, 200);
const VICTIM = app("victim", 500, 1_000);

/** A node that may lie: sends what it is told to. */
function createNode(quota: Quota, limits: BucketLimits, node: string) {
  let seq = 0;
  const counters = { granted: 0, spent: 0, returned: 0 };
  return {
    counters,
    async send(ask: { need?: number; want?: number } = {}) {
      const { need = 0, want = need } = ask;
      const request: GrantRequest = { app: limits, ...counters, need, want };
      const reply = await quota.of(limits.id).grant({ node, epoch: 1, seq: ++seq }, [request]);
      const { granted, code, retryAfterMs } = reply.apps[0]!;
      counters.granted = Math.max(counters.granted, granted);
      return { code, granted, retryAfterMs };
    },
  };
}

/** A node that takes and spends exactly the own rate of its app, and reports it with its next message. */
function createVictim(quota: Quota, limits: BucketLimits, node = "honest") {
  const own = createNode(quota, limits, node);
  let credit = 0;
  return {
    /** Requests of this time; the codes of those that were refused. */
    async requests(seconds: number): Promise<string[]> {
      credit += limits.guaranteed * seconds;
      const need = Math.floor(credit);
      credit -= need;
      if (need === 0) return [];
      const { code } = await own.send({ need });
      own.counters.spent = own.counters.granted - own.counters.returned;
      return code === "ok" ? [] : [code];
    },
  };
}

const level = async (quota: Quota) => {
  const { tokens, held, reserve } = await quota.cluster();
  return { tokens, held, reserve };
};

forEachBackend("isolation", (it) => {
  const open = (store: DrivenStore, id: string, more: Partial<typeof L1> & { shards?: number } = {}) =>
    createQuota(store, { id, ...L1, ...more });

  it("an app that reports 1e12 spent tokens stops only itself", async ({ store, name }) => {
    const quota = open(store, name);
    const liar = createNode(quota, DEMO, "liar");
    liar.counters.spent = 1e12;
    await liar.send();
    expect((await level(quota)).tokens).toBeGreaterThanOrEqual(5_000);
    expect((await liar.send({ need: 1 })).code).toBe("quota_exhausted");
    const victim = createVictim(quota, VICTIM);
    for (let i = 0; i < 20; i++) {
      expect(await victim.requests(0.1)).toEqual([]);
      store.clock.now += SECOND / 10;
    }
  });

  it("a node that spends gets as many tokens again, however many idle nodes are registered", async ({
    store,
    name,
  }) => {
    const quota = open(store, name);
    for (let i = 0; i < 200; i++) await createNode(quota, DEMO, `idle-${i}`).send();
    const node = createNode(quota, VICTIM, "busy");
    await node.send({ need: 100 });
    node.counters.spent = 100;
    const { granted } = await node.send({ want: 100 });
    expect(granted).toBe(200);
  });

  const lies: Record<string, (counters: { granted: number; spent: number; returned: number }, turn: number) => void> = {
    "spent grows by a million": (counters) => {
      counters.spent += 1e6;
    },
    "granted grows to 1e12": (counters) => {
      counters.granted = 1e12;
    },
    "granted and returned grow together": (counters) => {
      counters.granted += 1e9;
      counters.returned += 1e9;
    },
    "granted grows and is returned with the next message": (counters, turn) => {
      if (turn % 2 === 0) counters.granted += 1e9;
      else counters.returned += 1e9;
    },
    "spent goes up and down": (counters, turn) => {
      counters.spent = turn % 2 === 0 ? 1e6 : 0;
    },
    "granted and spent grow together": (counters) => {
      counters.granted += 1e7;
      counters.spent += 1e7;
    },
  };
  for (const [lie, tell] of Object.entries(lies)) {
    it(`lies in every message refuse nobody else: ${lie}`, async ({ store, name }) => {
      const quota = open(store, name);
      const liars = [DEMO, app("rich", 4_000, 9_000)].map((limits) => createNode(quota, limits, `liar-${limits.id}`));
      const victim = createVictim(quota, VICTIM);
      for (let turn = 0; turn < 40; turn++) {
        for (const liar of liars) {
          tell(liar.counters, turn);
          await liar.send({ need: 0, want: turn % 3 === 0 ? 5_000 : 0 });
        }
        expect(await victim.requests(0.1)).toEqual([]);
        const { tokens, held, reserve } = await level(quota);
        expect(tokens).toBeGreaterThanOrEqual(0);
        expect(tokens + held).toBeLessThanOrEqual(L1.capacity + 1e-6);
        expect(reserve).toBe(5_000);
        store.clock.now += SECOND / 10;
      }
      const { active, burstsStopped } = await quota.emergencyCheck(30_000, true);
      expect({ active, burstsStopped }).toEqual({ active: false, burstsStopped: false });
    });
  }

  it("a liar does not keep L1 at its reserve: others can burst again a second later", async ({ store, name }) => {
    const quota = open(store, name);
    const liar = createNode(quota, app("demo", 100, 9_000), "liar");
    const burster = createNode(quota, app("burster", 100, 4_000), "burster");
    for (let turn = 0; turn < 150; turn++) {
      liar.counters.spent += 1e6;
      await liar.send();
      store.clock.now += SECOND / 100;
    }
    expect((await burster.send({ need: 4_000 })).code).toBe("ok");
  });

  it("60 requests that are priced 5,000 at their end delay only their app", async ({ store, name }) => {
    const quota = open(store, name);
    const priced = createNode(quota, DEMO, "priced");
    const victim = createVictim(quota, VICTIM);
    expect((await priced.send({ need: 60 })).code).toBe("ok");
    for (let i = 0; i < 60; i++) {
      priced.counters.spent += 5_000;
      await priced.send();
      expect(await victim.requests(0.1)).toEqual([]);
      store.clock.now += SECOND / 10;
    }
    expect((await priced.send({ need: 1 })).code).toBe("quota_exhausted");
  });

  it("what four nodes have spent in an outage is charged to their app, and an idle app is admitted", async ({
    store,
    name,
  }) => {
    const quota = open(store, name);
    const flooded = app("flooded", 2_000, 4_000);
    for (const node of ["w1", "w2", "w3", "w4"]) {
      const worker = createNode(quota, flooded, node);
      worker.counters.spent = 4_000 + 2_000 * 15;
      await worker.send();
    }
    expect((await quota.inspect(flooded)).tokens).toBeLessThan(-100_000);
    expect(await createVictim(quota, VICTIM).requests(0.9)).toEqual([]);
    expect((await quota.cluster()).writtenOff).toBeGreaterThan(100_000);
  });

  it("returns and refunds of written-off tokens do not fill L1", async ({ store, name }) => {
    const quota = open(store, name);
    const liar = createNode(quota, DEMO, "liar");
    liar.counters.spent = 1e6;
    await liar.send();
    const before = (await level(quota)).tokens;
    async function takeBack(tokens: number): Promise<void> {
      liar.counters.spent -= tokens;
      await liar.send();
      liar.counters.returned += tokens;
      await liar.send();
    }
    await takeBack(1e6 - 400);
    expect((await level(quota)).tokens).toBe(before);
    // L1 has paid two bursts, and counts one as held at a time. When all is back, it has got exactly what it paid.
    await takeBack(200);
    await takeBack(200);
    expect(await level(quota)).toMatchObject({ tokens: L1.capacity, held: 0 });
  });

  it("limits do not touch L1: a request counts once, however many limits it matches", async ({ store, name }) => {
    const quota = open(store, name);
    const tenant = app("tenant", 3_600, 3_600);
    const limit = (id: string): BucketLimits => ({ ...app(`limit:${id}:x`, 3_600, 3_600), fillSeconds: 1 });
    const all = [tenant, limit("a"), limit("b"), limit("c")];
    const counters = all.map(() => ({ granted: 0, spent: 0, returned: 0 }));
    const victim = createVictim(quota, VICTIM);
    for (let turn = 0; turn < 50; turn++) {
      const asked = all.map((limits, i) => ({ app: limits, ...counters[i]!, need: 360, want: 360 }));
      const reply = await quota.shards[0]!.grant({ node: "n", epoch: 1, seq: turn + 1 }, asked);
      expect(reply.apps.map(({ code }) => code)).toEqual(["ok", "ok", "ok", "ok"]);
      reply.apps.forEach(({ granted }, i) => {
        counters[i] = { granted, spent: granted, returned: 0 };
      });
      expect(await victim.requests(0.1)).toEqual([]);
      const { active, burstsStopped } = await quota.emergencyCheck(30_000, true);
      expect({ active, burstsStopped }).toEqual({ active: false, burstsStopped: false });
      store.clock.now += SECOND / 10;
    }
    // What is held is the last grant of the two apps; limits are not part of it.
    const { held, tokens } = await level(quota);
    expect(held).toBe(360 + 50);
    expect(tokens + held).toBeLessThanOrEqual(L1.capacity);
  });

  it("bursts take nothing of the last second of refill, and the first stage refuses nobody within its rate", async ({
    store,
    name,
  }) => {
    // A large bucket: its reserve is 1 % of it, so a burst uses more than 95 %.
    const quota = open(store, name, { capacity: 500_000 });
    const burster = createNode(quota, app("burster", 4_000, 500_000), "burster");
    const victim = createVictim(quota, VICTIM);
    let stopped = 0;
    for (let turn = 0; turn < 100; turn++) {
      for (let i = 0; i < 8; i++) await burster.send({ need: 60_000 });
      burster.counters.spent = burster.counters.granted;
      expect(await victim.requests(0.1)).toEqual([]);
      const { active, burstsStopped } = await quota.emergencyCheck(30_000, true);
      expect(active).toBe(false);
      if (burstsStopped) stopped++;
      expect((await level(quota)).tokens).toBeGreaterThanOrEqual(0);
      store.clock.now += SECOND / 10;
    }
    expect(stopped).toBeGreaterThan(50);
  });

  it("priorities are cut only if the rates of the apps are together above the cluster's", async ({ store, name }) => {
    const quota = open(store, name);
    const apps = [app("a", 4_000, 4_000, { priority: 0 }), app("b", 4_000, 4_000)];
    const nodes = apps.map((limits) => createNode(quota, limits, `node-${limits.id}`));
    const states: string[] = [];
    for (let turn = 0; turn < 100; turn++) {
      for (const node of nodes) {
        for (let i = 0; i < 8; i++) await node.send({ need: 50 });
        node.counters.spent = node.counters.granted;
        await node.send();
      }
      const { active, burstsStopped } = await quota.emergencyCheck(30_000, true);
      states.push(active ? "priorities" : burstsStopped ? "bursts" : "none");
      store.clock.now += SECOND / 10;
    }
    const bursts = states.indexOf("bursts");
    const priorities = states.indexOf("priorities");
    expect(bursts).toBeGreaterThanOrEqual(0);
    expect(priorities - bursts).toBeGreaterThanOrEqual(15);
  });

  it("an operator fills L1: also one that release 0.2 left far below zero, with a false count of held tokens", async ({
    store,
    name,
  }) => {
    const quota = open(store, name);
    const node = createNode(quota, VICTIM, "n");
    await node.send({ need: 300 });
    const burster = createNode(quota, app("burster", 100, 5_000), "b");
    await burster.send({ need: 5_000 });
    burster.counters.spent = 5_000;
    await burster.send();
    const apps = [VICTIM, app("burster", 100, 5_000)];
    const done = await quota.refill(apps, "op-1");
    expect(done.after).toEqual({ tokens: 9_700, held: 300 });
    expect(await quota.refill(apps, "op-1")).toEqual(done);
    expect(await level(quota)).toMatchObject({ tokens: 9_700, held: 300 });
  });

  it("in every history an app within its own rate gets tokens, and L1 gets back only what it paid", async ({
    store,
    name,
  }) => {
    let played = 0;
    const step = fc.record({
      who: fc.integer({ min: 0, max: 2 }),
      need: fc.integer({ min: 0, max: 400 }),
      want: fc.integer({ min: 0, max: 2_000 }),
      granted: fc.constantFrom(0, 0, 0, 50, 1e6),
      spent: fc.constantFrom(-1e6, -50, 0, 0, 20, 100, 100, 5_000, 1e9),
      returned: fc.constantFrom(0, 0, 0, 10, 300, 1e6),
      again: fc.boolean(),
    });
    const world = fc.record({
      rate: fc.integer({ min: 50, max: 2_000 }),
      seconds: fc.constantFrom(0.3, 0.7, 1, 2, 5, 40),
      part: fc.integer({ min: 1, max: 9 }),
      bursts: fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 3, maxLength: 3 }),
    });
    const property = fc.asyncProperty(world, fc.array(step, { maxLength: 120 }), async (sizes, steps) => {
      const { rate, seconds, part, bursts } = sizes;
      const capacity = Math.ceil(rate * seconds);
      const quota = open(store, `${name}-${++played}`, { capacity, rate });
      // Together exactly the cluster's rate.
      const mine = Math.floor((rate * part) / 10);
      const others = Math.floor((rate - mine) / 3);
      const victimApp = app("victim", mine, Math.max(mine * 2, 1));
      const nodes = bursts.map((burst, i) => createNode(quota, app(`other-${i}`, others, others * burst), `o${i}`));
      const victim = createVictim(quota, victimApp);
      const tick = Math.min(0.1, seconds / 8);
      let elapsed = 0;
      /** What L1 has paid for the others, less what came back. */
      let taken = 0;
      for (const { who, need, want, granted, spent, returned, again } of steps) {
        const { counters, send } = nodes[who]!;
        counters.granted += granted;
        counters.spent = Math.max(counters.spent + spent, 0);
        counters.returned = Math.min(counters.returned + returned, counters.granted);
        const before = (await level(quota)).tokens;
        const { granted: told } = await send({ need, want });
        const { tokens: after } = await level(quota);
        // A grant leaves the reserve to the others, and a return never makes L1 fuller than what was taken before.
        expect(told).toBeGreaterThanOrEqual(0);
        taken += before - after;
        expect(taken).toBeGreaterThanOrEqual(-1e-6);
        expect(taken).toBeLessThanOrEqual(capacity + rate * elapsed + 1e-6);
        if (again) continue;
        if (mine > 0) expect(await victim.requests(tick)).toEqual([]);
        const { active } = await quota.emergencyCheck(1_000, true);
        expect(active).toBe(false);
        const { tokens, held } = await level(quota);
        expect(tokens).toBeGreaterThanOrEqual(0);
        expect(held).toBeGreaterThanOrEqual(0);
        expect(tokens + held).toBeLessThanOrEqual(capacity + 1e-6);
        elapsed += tick;
        store.clock.now += Math.round(tick * SECOND);
      }
    });
    await fc.assert(property, { seed, numRuns: Number(process.env.HISTORIES ?? 60) });
  });
});
