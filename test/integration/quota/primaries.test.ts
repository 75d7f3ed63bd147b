/** A primary of a real Redis Cluster dies under load: only the apps on its shards notice, and they are charged for what they spend. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { clusterKey } from "../../../src/core/keys.js";
import { shardOf } from "../../../src/core/shard.js";
import { createLimiter, type LibraryLimiter } from "../../../src/limiter/library/library.js";
import type { Decision } from "../../../src/limiter/limiter-contract.js";
import { createQuota } from "../../../src/quota/quota.js";
import { shardTags } from "../../../src/quota/shard-tags.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import type { Store } from "../../../src/store/store.js";
import { type ClusterNode, type RedisCluster, startRedisCluster } from "../../support/redis-cluster.js";
import { waitFor } from "../../support/wait-for.js";

const CLUSTER = "primaries";
const SHARDS = 16;
const LIMITS = { guaranteed: 100_000, burst: 1_000_000 };
const tags = shardTags(CLUSTER, SHARDS);

let cluster: RedisCluster;
let limiter: LibraryLimiter;
let store: Store;
/** Tokens of admitted requests, by app. */
const admitted = new Map<string, number>();
/** The first shard of every primary; the first of them dies. */
const shardOn = new Map<ClusterNode, number>();

beforeAll(async () => {
  cluster = await startRedisCluster({ nodeTimeoutMs: 5_000 });
  store = createRedisStore({ url: cluster.url, deadlineMs: 5_000 });
  for (const [shard, tag] of tags.entries()) {
    const primary = await cluster.primaryOf(clusterKey(tag));
    if (!shardOn.has(primary)) shardOn.set(primary, shard);
  }
});
afterAll(async () => {
  await limiter?.close();
  await store?.close();
  await cluster?.stop();
});

/** An app with this prefix on the shard. */
function idOn(shard: number, prefix: string): string {
  for (let i = 0; ; i++) if (shardOf(`${prefix}-${i}`, SHARDS) === shard) return `${prefix}-${i}`;
}

/** Requests of one token every few milliseconds. */
function startLoad(app: string) {
  const decisions: Decision[] = [];
  let running = true;
  const ended = (async () => {
    while (running) {
      decisions.push(await limiter.take(app, 1));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  })();
  return {
    app,
    decisions,
    admitted: () => decisions.filter(({ allowed }) => allowed).length,
    async stop(): Promise<void> {
      running = false;
      await ended;
    },
  };
}

it("apps on other primaries see no error; those on the dead one follow their policy and are charged after the failover", async () => {
  expect(shardOn.size).toBe(3);
  const [[dying, hit], ...others] = [...shardOn] as [[ClusterNode, number], ...[ClusterNode, number][]];
  const open = idOn(hit, "open");
  const closed = idOn(hit, "closed");
  const safe = others.map(([, shard]) => idOn(shard, "safe"));
  const fresh = others.map(([, shard]) => idOn(shard, "fresh"));
  const failClosed = { ...LIMITS, onStoreFailure: "closed" as const };
  limiter = await createLimiter({
    store: cluster.url,
    cluster: { id: CLUSTER, capacity: 1e9, rate: 1e9 },
    node: "n1",
    observer: {
      decided: ({ app, allowed, cost }) => allowed && admitted.set(app, (admitted.get(app) ?? 0) + cost),
    },
    timeoutMs: 1_000,
    failOpenTokens: 1_000,
    lease: { reserve: 2_000, batchThreshold: 50 },
    apps: {
      ...Object.fromEntries([...safe, ...fresh, closed].map((id) => [id, failClosed])),
      [open]: { ...LIMITS, onStoreFailure: "open" },
    },
  });
  const passes = async (app: string) => (await limiter.take(app, 1)).allowed;
  for (const app of [...safe, open]) await waitFor(`${app} to pass`, () => passes(app));
  const loads = [...safe, open].map(startLoad);
  const openLoad = loads.at(-1)!;
  await waitFor("some load", () => loads.every((load) => load.admitted() > 100));
  const before = openLoad.admitted();
  const failover = cluster.killPrimaryOf(clusterKey(tags[hit]!));
  // Its apps that need the store are refused as unavailable, never as over their limit.
  const refusals: Decision[] = [];
  await waitFor("the policy of the apps on the dead primary", async () => {
    const decision = await limiter.take(closed, 500);
    if (!decision.allowed) refusals.push(decision);
    return refusals.length > 3;
  });
  expect(new Set(refusals.map(({ code }) => code))).toEqual(new Set(["store_unavailable"]));
  // More than the lease holds: the rest is admitted without the store.
  await waitFor("spending without the store", async () => (await limiter.take(open, 200)).source === "without_store");
  // The other primaries still grant: these apps have no lease yet.
  for (const app of fresh) await waitFor(`${app} to pass`, () => passes(app));
  expect(await failover).toBe(dying);
  await waitFor("the closed app to pass again", () => passes(closed));
  await Promise.all(loads.map((load) => load.stop()));
  for (const load of loads.slice(0, -1)) {
    expect(load.decisions.filter(({ allowed }) => !allowed)).toEqual([]);
  }
  expect(openLoad.decisions.filter(({ code }) => code !== "ok" && code !== "store_unavailable")).toEqual([]);
  expect(openLoad.admitted()).toBeGreaterThan(before);
  await limiter.close();
  const quota = createQuota(store, { id: CLUSTER, capacity: 1e9, rate: 1e9, nodeTtlMs: 5_000, shards: SHARDS });
  for (const app of [open, closed, ...safe, ...fresh]) {
    const { spent } = await quota.inspect({ id: app, ...LIMITS, priority: 2, borrow: false });
    expect({ app, spent }).toEqual({ app, spent: admitted.get(app) });
  }
});
