/** The real scripts under load while Redis loses them, restarts, fails over or migrates their slot. */
import { afterEach, describe, expect, it } from "vitest";
import { clusterKey } from "../../../src/core/keys.js";
import { createSlots } from "../../../src/slots/slots.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import type { Store } from "../../../src/store/store.js";
import { startRedisCluster } from "../../support/redis-cluster.js";
import { startRedis } from "../../support/redis-server.js";
import { createSpendingNode, type SpendingNode } from "../../support/spending-node.js";
import { createQuota } from "../../support/split-quota.js";
import { pause, waitFor } from "../../support/wait-for.js";

const app = { id: "video", guaranteed: 1_000_000, burst: 1_000_000, priority: 1, borrow: false };
const policy = { id: "c1", capacity: 100_000_000, rate: 100_000_000, nodeTtlMs: 60_000 };

const endings: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** Three nodes, each with its own store, that spend tokens until `stop` is called. */
function startNodes(url: string) {
  const stores: Store[] = [];
  let stopped = false;
  const nodes: SpendingNode[] = ["n1", "n2", "n3"].map((name) => {
    const store = createRedisStore({ url, deadlineMs: 2_000 });
    stores.push(store);
    return createSpendingNode(createQuota(store, policy), app, name);
  });
  const working = nodes.map(async (node) => {
    while (!stopped) {
      await node.turn();
      if (node.outcomes.size > 1) await pause(1);
    }
  });
  endings.push(() => Promise.all(stores.map((store) => store.close())));
  return {
    nodes,
    quota: createQuota(stores[0]!, policy),
    turns: () => nodes.map((node) => node.outcomes.get("ok") ?? 0),
    /** Waits until every node has completed `turns` more successful turns. */
    async goOn(turns: number): Promise<void> {
      const goals = this.turns().map((done) => done + turns);
      await waitFor("all nodes to continue", () => this.turns().every((done, i) => done >= goals[i]!));
    },
    async stop(): Promise<void> {
      stopped = true;
      await Promise.all(working);
      // Each node repeats its unfinished call, then reports once more.
      for (const node of nodes) await waitFor("a last report", () => node.turn().then(() => true));
      for (const node of nodes) await node.turn();
    },
  };
}

type Running = ReturnType<typeof startNodes>;

/** I5: granted tokens in the store equal the tokens that the nodes hold. */
async function expectMatchingLedgers({ nodes, quota }: Running): Promise<void> {
  const books = await quota.inspect(app);
  const held = nodes.reduce((sum, node) => sum + node.granted, 0);
  const reported = books.granted - books.spent - books.returned;
  const ledgers = await Promise.all(["n1@1", "n2@1", "n3@1"].map((name) => quota.ledger(name)));
  expect(ledgers.map((ledger) => ledger.apps[0]?.granted)).toEqual(nodes.map((node) => node.granted));
  expect(reported).toBe(ledgers.reduce((sum, ledger) => sum + ledger.held, 0));
  expect(held).toBeGreaterThan(0);
}

describe("scripts under load", () => {
  it("survive FUNCTION FLUSH without an error", async () => {
    const server = await startRedis();
    endings.push(() => server.stop());
    const running = startNodes(server.url);
    for (let i = 0; i < 20; i++) {
      await running.goOn(5);
      await server.command("FUNCTION", "FLUSH");
    }
    await running.goOn(5);
    await running.stop();
    for (const node of running.nodes) expect([...node.outcomes.keys()]).toEqual(["ok"]);
    await expectMatchingLedgers(running);
  });

  it("survive a restart without persistence: nodes continue, and their tokens are in the ledgers again", async () => {
    const server = await startRedis();
    endings.push(() => server.stop());
    const running = startNodes(server.url);
    await running.goOn(50);
    await server.restart();
    await running.goOn(50);
    await running.stop();
    await expectMatchingLedgers(running);
  });

  it("survive a restart with persistence", async () => {
    const server = await startRedis({ args: ["--appendonly", "yes", "--appendfsync", "always"] });
    endings.push(() => server.stop());
    const running = startNodes(server.url);
    await running.goOn(50);
    await server.restart();
    await running.goOn(50);
    await running.stop();
    await expectMatchingLedgers(running);
  });

  it("survive a cluster failover, and lost writes are restored from the nodes' counters", async () => {
    const cluster = await startRedisCluster();
    endings.push(() => cluster.stop());
    const running = startNodes(cluster.url);
    await running.goOn(50);
    await cluster.killPrimaryOf(clusterKey(`${policy.id}/0`));
    await running.goOn(50);
    await running.stop();
    await expectMatchingLedgers(running);
  });

  it("survive the migration of their slot without an error", async () => {
    const cluster = await startRedisCluster();
    endings.push(() => cluster.stop());
    const running = startNodes(cluster.url);
    await running.goOn(50);
    const key = clusterKey(`${policy.id}/0`);
    for (let i = 0; i < 3; i++) {
      const from = await cluster.primaryOf(key);
      const to = (await cluster.primaries()).find((node) => node.id !== from.id)!;
      await cluster.migrateSlot(key, to, () => pause(50));
      await running.goOn(20);
    }
    await running.stop();
    for (const node of running.nodes) expect([...node.outcomes.keys()]).toEqual(["ok"]);
    await expectMatchingLedgers(running);
  });

  it("out of memory: nothing is granted, but scripts that free something still run", async () => {
    const server = await startRedis({ args: ["--maxmemory-policy", "noeviction"] });
    endings.push(() => server.stop());
    const store = createRedisStore(server.url);
    endings.push(() => store.close());
    const quota = createQuota(store, policy);
    const slots = createSlots(store, "c1//ws/");
    const limits = { maxPerPod: 2, maxTotal: 0, maxPerApp: 0, ratePerSecond: 0, burst: 1, leaseMs: 30_000 };
    const slot = { connection: "c1", app: "chat", pod: "pod-1" };
    const ask = { app, granted: 0, spent: 0, returned: 0, need: 100, want: 100 };
    await quota.grant({ node: "n1", epoch: 1, seq: 1 }, [ask]);
    await slots.acquire({ proxy: "p1", connection: "c1", app: "chat", pods: ["pod-1"] }, limits);

    // Less memory than an empty server uses, so that it is certainly out of memory.
    await server.command("CONFIG", "SET", "maxmemory", "100kb");
    const outOfMemory = { kind: "out_of_memory" };
    await expect(quota.grant({ node: "n1", epoch: 1, seq: 2 }, [ask])).rejects.toMatchObject(outOfMemory);
    await expect(
      slots.acquire({ proxy: "p1", connection: "c2", app: "chat", pods: ["pod-1"] }, limits),
    ).rejects.toMatchObject(outOfMemory);
    const settled = await quota.report(
      { node: "n1", epoch: 1, seq: 2 },
      [{ app, granted: 100, spent: 40, returned: 60 }],
      false,
    );
    expect(settled.code).toBe("ok");
    const before = await server.command("DBSIZE");
    const unknown = { ...app, id: "unknown" };
    const claims = [app, unknown].map((limits) => ({ app: limits, granted: 100, spent: 500, returned: 60 }));
    for (const leave of [false, true]) {
      const { code, apps } = await quota.report({ node: "invented", epoch: 1, seq: 1 }, claims, leave);
      expect([code, apps.map(({ granted }) => granted)]).toEqual(["ok", [0, 0]]);
    }
    // A known node is charged for its known app only, and once.
    for (let i = 0; i < 2; i++) {
      const { apps } = await quota.report(
        { node: "n1", epoch: 1, seq: 3 },
        [{ ...claims[0]!, spent: 40 }, claims[1]!],
        false,
      );
      expect(apps.map(({ granted }) => granted)).toEqual([100, 0]);
    }
    expect((await quota.ledger("n1@1")).apps.map(({ app: id }) => id)).toEqual([app.id]);
    expect(await slots.renew("p1", limits.leaseMs, [slot])).toMatchObject({ renewed: 1, lost: [] });
    const other = createSlots(store, "c1//other/");
    const invented = { ...slot, client: "10.0.0.1" };
    expect(await other.renew("p2", limits.leaseMs, [invented])).toMatchObject({ renewed: 0, incarnation: "0" });
    expect(await other.release("p2", limits.leaseMs, [invented])).toMatchObject({ released: 0 });
    expect(await server.command("DBSIZE")).toBe(before);
    expect(await slots.release("p1", limits.leaseMs, [slot])).toEqual({ released: 1, unknown: [] });
    expect(await quota.inspect(app)).toMatchObject({ spent: 40, returned: 60 });
  });
});
