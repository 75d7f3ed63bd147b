/** Demand that moves between shards: the shares follow it, and L1 holds in every window, whatever happens to the services. */
import { describe, expect, it } from "vitest";
import { shardOf } from "../../../src/core/shard.js";
import { createLock, type Lock } from "../../../src/quota/lock.js";
import type { ShardQuota } from "../../../src/quota/quota.js";
import { createShareRounds } from "../../../src/quota/share-rounds.js";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { StoreError } from "../../../src/store/errors.js";
import { createSimulation, limitedApp, type SimulatedNode, START_MS } from "../../support/simulation.js";
import { type Taken, worstWindow } from "../../support/windows.js";

const RATE = 1000;
const CAPACITY = 1000;

/** An app on this shard. */
function idOn(shard: number, shards: number): string {
  for (let i = 0; ; i++) if (shardOf(`app-${i}`, shards) === shard) return `app-${i}`;
}

type SetShare = (
  call: () => ReturnType<ShardQuota["setShare"]>,
  isIncrease: boolean,
) => ReturnType<ShardQuota["setShare"]>;

interface Service {
  name: string;
  /** What happens to its calls that change a share. */
  setShare?: SetShare;
  /** Ignores other services. */
  withoutLock?: boolean;
}

function createWorld(shards: number) {
  const apps = Array.from({ length: shards }, (_, shard) =>
    limitedApp({ id: idOn(shard, shards), guaranteed: 2 * RATE, burst: 2 * RATE }),
  );
  const cluster = { id: "moving", capacity: CAPACITY, rate: RATE, nodeTtlMs: 5000, shards };
  const simulation = createSimulation(apps, cluster);
  const { clock, quota } = simulation;
  const nodes = [simulation.addNode("n1"), simulation.addNode("n2")];
  const lockStore = createEmbeddedStore({ clock: () => (START_MS + clock.now()) * 1000 });
  let dead = false;

  function startService({ name, setShare = (call) => call(), withoutLock = false }: Service) {
    const free: Lock = { owner: name, take: async () => ({ ours: true, leftMs: 0 }), release: () => free.take(1) };
    const current = new Map<ShardQuota, number>();
    const own = quota.shards.map((shard) => ({
      ...shard,
      async read(...given: Parameters<ShardQuota["read"]>) {
        const state = await shard.read(...given);
        current.set(shard, state.share.rate);
        return state;
      },
      setShare: (...given: Parameters<ShardQuota["setShare"]>) =>
        setShare(() => shard.setShare(...given), given[1].rate > (current.get(shard) ?? 0)),
    }));
    return createShareRounds({
      quota: { shards: own, limits: quota.limits },
      lock: withoutLock ? free : createLock(lockStore, "moving", "shares", name),
      ...{ clock, apps: () => apps, failed: () => undefined },
    });
  }

  /** 80 % of three times the rate on one shard, the rest on the others. */
  function flood(hot: number, until: number): void {
    for (const node of nodes) {
      for (const [i, { id }] of apps.entries()) {
        const perSecond = i === hot ? 1.2 * RATE : (0.3 * RATE) / (shards - 1);
        simulation.load(node, id, perSecond, until);
      }
    }
  }

  return {
    ...simulation,
    apps,
    nodes,
    startService,
    flood,
    /** For services that die: calls made after that never end. */
    dies: () => {
      dead = true;
    },
    isDead: () => dead,
    /** The fraction of L1's rate that was admitted in this time. */
    used(from: number, to: number): number {
      const admitted = nodes.reduce((sum, node) => sum + node.admitted(from, to), 0);
      return admitted / ((RATE * (to - from)) / 1000);
    },
    excess: () => worstWindow(taken(nodes), { from: 0, to: 1e9, rate: RATE, burst: CAPACITY }),
  };
}

/** Admissions in the same millisecond are one, so that the quadratic check stays quick. */
function taken(nodes: SimulatedNode[]): Taken[] {
  const byTime = new Map<number, number>();
  for (const { at, decision } of nodes.flatMap((node) => node.decisions)) {
    const ms = Math.floor(at);
    if (decision.allowed) byTime.set(ms, (byTime.get(ms) ?? 0) + decision.cost);
  }
  return [...byTime].map(([at, tokens]) => ({ at, tokens }));
}

describe.each([4, 16])("demand that moves from one of %i shards to another", (shards) => {
  it("gets at least 0.95 of the rate two seconds later, and no window exceeds capacity + rate × time", async () => {
    const world = createWorld(shards);
    const service = world.startService({ name: "one" });
    world.flood(0, 6000);
    await world.clock.advance(6000);
    world.flood(shards - 1, 12_000);
    await world.clock.advance(6500);
    expect(world.used(3000, 6000)).toBeGreaterThanOrEqual(0.95);
    expect(world.used(8000, 12_000)).toBeGreaterThanOrEqual(0.95);
    expect(world.excess()).toBeUndefined();
    await world.during(service.close());
  });
});

describe("while demand moves", () => {
  const shift = async (world: ReturnType<typeof createWorld>) => {
    world.flood(0, 5000);
    await world.clock.advance(5000);
    world.flood(2, 13_000);
    await world.clock.advance(8500);
  };

  it("a service that dies between reducing and increasing leaves a part unused until another one continues", async () => {
    const world = createWorld(4);
    const never = new Promise<never>(() => {});
    // Its first reduction after the shift is its last call: the lock expires after two seconds.
    world.startService({
      name: "one",
      setShare: async (call, isIncrease) => {
        if (world.isDead()) return never;
        if (world.clock.now() > 5000 && !isIncrease) {
          world.dies();
          await call();
          return never;
        }
        return call();
      },
    });
    const second = world.startService({ name: "two" });
    await shift(world);
    expect(world.isDead()).toBe(true);
    expect(world.used(10_000, 13_000)).toBeGreaterThanOrEqual(0.95);
    expect(world.excess()).toBeUndefined();
    await world.during(second.close());
  });

  it("two services that both believe to have the lock do no harm", async () => {
    const world = createWorld(4);
    const services = ["one", "two"].map((name) => world.startService({ name, withoutLock: true }));
    await shift(world);
    expect(world.used(9_000, 13_000)).toBeGreaterThanOrEqual(0.95);
    expect(world.excess()).toBeUndefined();
    await world.during(Promise.all(services.map((service) => service.close())));
  });

  it("lost calls and lost replies do no harm, and nothing remains of them", async () => {
    const world = createWorld(4);
    let calls = 0;
    const lost = () => Promise.reject(new StoreError("timeout", "simulated"));
    const service = world.startService({
      name: "one",
      setShare: async (call) => {
        if (world.clock.now() > 8000) return call();
        calls++;
        if (calls % 5 === 0) return lost();
        const reply = await call();
        return calls % 3 === 0 ? lost() : reply;
      },
    });
    await shift(world);
    expect(calls).toBeGreaterThan(15);
    expect(world.used(10_000, 13_000)).toBeGreaterThanOrEqual(0.95);
    expect(world.excess()).toBeUndefined();
    await world.during(service.close());
  });
});

describe("a request that costs more than the share of its shard", () => {
  it("waits for a larger share and is admitted, while the other shards are idle", async () => {
    const world = createWorld(16);
    const service = world.startService({ name: "one" });
    await world.clock.advance(1000);
    const decision = await world.during(world.nodes[0]!.limiter.take(world.apps[5]!.id, 0.4 * CAPACITY));
    expect(decision).toMatchObject({ allowed: true, code: "ok" });
    await world.during(service.close());
  });

  it("is admitted up to 0.98 of the capacity, also if nodes hold tokens of other shards", async () => {
    const world = createWorld(16);
    const service = world.startService({ name: "one" });
    await world.clock.advance(1000);
    // One request each, so that the nodes have leases.
    for (const { id } of world.apps) await world.during(world.nodes[1]!.limiter.take(id, 1));
    expect((await world.quota.cluster()).held).toBeGreaterThan(100);
    const take = () => world.during(world.nodes[0]!.limiter.take(world.apps[5]!.id, 0.98 * CAPACITY));
    let decision = await take();
    for (let i = 0; i < 10 && !decision.allowed; i++) {
      expect(decision.code).toBe("cluster_exhausted");
      await world.clock.advance(decision.retryAfterMs);
      decision = await take();
    }
    expect(decision).toMatchObject({ allowed: true, code: "ok" });
    const more = await world.during(world.nodes[0]!.limiter.take(world.apps[6]!.id, 0.98 * CAPACITY + 1));
    expect(more).toMatchObject({ allowed: false, code: "cost_exceeds_capacity" });
    await world.during(service.close());
  });
});
