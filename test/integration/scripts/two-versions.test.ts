/** Two versions of the function library on one Redis under load, as during a rolling upgrade. */
import { afterEach, describe, expect, it } from "vitest";
import { clusterKey } from "../../../src/core/keys.js";
import { type FunctionLibrary, loadLibrary } from "../../../src/store/function-library.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import { otherVersion } from "../../support/libraries.js";
import { startRedisCluster } from "../../support/redis-cluster.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { createSpendingNode } from "../../support/spending-node.js";
import { createQuota } from "../../support/split-quota.js";
import { pause, waitFor } from "../../support/wait-for.js";

/** Small enough that the nodes always request more than is available. */
const app = { id: "video", guaranteed: 500, burst: 300, priority: 1, borrow: false };
const cluster = { id: "c1", capacity: 1_000_000, rate: 1_000_000, nodeTtlMs: 60_000 };
const versions = [loadLibrary(), otherVersion()];

const endings: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** Two nodes per version, each with its own store. */
function startNodes(url: string) {
  const started = Date.now();
  let stopped = false;
  const stores = versions.flatMap((library) => [open(url, library), open(url, library)]);
  const nodes = stores.map((store, i) => createSpendingNode(createQuota(store, cluster), app, `n${i}`));
  const working = nodes.map(async (node) => {
    while (!stopped) {
      await node.turn();
      await pause(1);
    }
  });
  endings.push(async () => {
    stopped = true;
  });
  return {
    /** Waits until every node has had another 20 successful calls. */
    async continue(): Promise<void> {
      const turns = () => nodes.map((node) => node.outcomes.get("ok") ?? 0);
      const before = turns();
      await waitFor("all nodes to continue", () => turns().every((count, i) => count >= before[i]! + 20));
    },
    async stop() {
      stopped = true;
      await Promise.all(working);
      const granted = nodes.reduce((sum, node) => sum + node.granted, 0);
      const seconds = (Date.now() - started) / 1000;
      return {
        granted,
        limit: app.burst + app.guaranteed * seconds,
        outcomes: nodes.flatMap((node) => [...node.outcomes.keys()]),
      };
    },
  };
}

function open(url: string, library: FunctionLibrary) {
  const store = createRedisStore({ url, library, deadlineMs: 5_000 });
  endings.push(() => store.close());
  return store;
}

async function loadedOn(server: RedisServer): Promise<string[]> {
  const libraries = (await server.command("FUNCTION", "LIST")) as string[][];
  return libraries.map((fields) => fields[fields.indexOf("library_name") + 1]!).sort();
}

const names = versions.map(({ name }) => name).sort();

describe("two versions of the library", () => {
  it("have different names", () => {
    expect(names[0]).not.toBe(names[1]);
  });

  it("survive FUNCTION FLUSH without an error, and the limit holds", async () => {
    const server = await startRedis();
    endings.push(() => server.stop());
    const running = startNodes(server.url);
    for (let i = 0; i < 10; i++) {
      await running.continue();
      await server.command("FUNCTION", "FLUSH");
    }
    await running.continue();
    const { granted, limit, outcomes } = await running.stop();
    expect(await loadedOn(server)).toEqual(names);
    expect(new Set(outcomes)).toEqual(new Set(["ok"]));
    expect(granted).toBeGreaterThan(app.burst);
    expect(granted).toBeLessThanOrEqual(limit);
  });

  it("survive a failover, and the limit holds", async () => {
    const servers = await startRedisCluster();
    endings.push(() => servers.stop());
    const running = startNodes(servers.url);
    await running.continue();
    const key = clusterKey(`${cluster.id}/0`);
    await servers.switchPrimaryOf(key);
    await running.continue();
    const promoted = await servers.primaryOf(key);
    // Functions are replicated, so the promoted replica had both; now it loses them, too.
    expect(await loadedOn(promoted)).toEqual(names);
    await promoted.command("FUNCTION", "FLUSH");
    await running.continue();
    const { granted, limit, outcomes } = await running.stop();
    expect(await loadedOn(promoted)).toEqual(names);
    expect(new Set(outcomes)).toEqual(new Set(["ok"]));
    expect(granted).toBeLessThanOrEqual(limit);
  });

  it("survive the death of a primary", async () => {
    const servers = await startRedisCluster();
    endings.push(() => servers.stop());
    const running = startNodes(servers.url);
    await running.continue();
    const key = clusterKey(`${cluster.id}/0`);
    await servers.killPrimaryOf(key);
    await running.continue();
    const { outcomes } = await running.stop();
    expect(await loadedOn(await servers.primaryOf(key))).toEqual(names);
    // Calls may fail while there is no primary.
    expect(outcomes.filter((kind) => !["ok", "unavailable", "timeout"].includes(kind))).toEqual([]);
  });

  it("are loaded on a new cluster primary when it gets the slot, and the limit holds", async () => {
    const servers = await startRedisCluster();
    endings.push(() => servers.stop());
    const running = startNodes(servers.url);
    await running.continue();
    const added = await servers.addPrimary();
    expect(await loadedOn(added)).toEqual([]);
    await servers.migrateSlot(clusterKey(`${cluster.id}/0`), added);
    await running.continue();
    const { granted, limit, outcomes } = await running.stop();
    expect(await loadedOn(added)).toEqual(names);
    expect(new Set(outcomes)).toEqual(new Set(["ok"]));
    expect(granted).toBeLessThanOrEqual(limit);
  });
});
