/** State of descriptor limits in Redis and the embedded store: buckets expire when they are full. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { createRedisStore } from "../../../../src/store/redis/redis-store.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { createQuota } from "../../../support/split-quota.js";

const limit = { id: "rate-limit:x", guaranteed: 0, burst: 100, priority: 2, borrow: false, fillSeconds: 3_600 };
const cluster = { id: "keys", capacity: 1000, rate: 1000, nodeTtlMs: 3000 };
const asked = { granted: 0, spent: 0, returned: 0, want: 0 };
const sender = { node: "n1", epoch: 1 };

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

it("a descriptor limit expires when it is full, the bucket of an app does not", async () => {
  const store = createRedisStore({ url: server.url });
  const quota = createQuota(store, cluster);
  const app = { ...limit, id: "video", guaranteed: 1 };
  const { fillSeconds: _, ...stays } = app;
  await quota.grant({ ...sender, seq: 1 }, [
    { ...asked, app: limit, need: 50 },
    { ...asked, app: stays, need: 50 },
  ]);
  const ttl = async (id: string) => Number(await server.command("PTTL", `ratelimit:{keys/0}:app:${id}`));
  // Half of it has to refill: half an hour. It is kept an hour longer, because the node holds tokens of it.
  expect(await ttl(limit.id)).toBeGreaterThan(5_390_000);
  expect(await ttl(limit.id)).toBeLessThanOrEqual(5_400_000);
  expect(await ttl("video")).toBe(-1);
  // Half an hour, plus one second.
  await quota.grant({ ...sender, seq: 2 }, [{ ...asked, app: limit, granted: 50, spent: 50, need: 0 }]);
  expect(await ttl(limit.id)).toBeGreaterThan(1_790_000);
  expect(await ttl(limit.id)).toBeLessThanOrEqual(1_801_000);
  expect(await ttl("video")).toBe(-1);
  // A node gives all back.
  const another = { ...sender, node: "n2" };
  await quota.grant({ ...another, seq: 1 }, [{ ...asked, app: { ...limit, id: "rate-limit:y" }, need: 50 }]);
  const back = { app: { ...limit, id: "rate-limit:y" }, granted: 50, spent: 0, returned: 50 };
  await quota.report({ ...another, seq: 2 }, [back], true);
  expect(await ttl("rate-limit:y")).toBeLessThanOrEqual(1_000);
  await store.close();
});

it("reconciling an expired limit does not recreate it", async () => {
  const store = createRedisStore({ url: server.url });
  const quota = createQuota(store, { ...cluster, id: "gone" });
  await quota.heartbeat(sender);
  const { fillSeconds: _, ...unknown } = { ...limit, burst: 1_000_000_000 };
  await quota.reconcile(unknown, { tolerance: 1, force: false, operation: "r1" });
  expect(await server.command("EXISTS", `ratelimit:{gone/0}:app:${limit.id}`)).toBe(0);
  await store.close();
});

it("in the embedded store, a limit expires when it is full and no node holds tokens of it, and not before", async () => {
  let now = 1_800_000_000_000_000;
  const store = createEmbeddedStore({ clock: () => now });
  const quota = createQuota(store, { ...cluster, rate: 0 });
  const left = async () => (await quota.inspect(limit)).granted;
  await quota.grant({ ...sender, seq: 1 }, [{ ...asked, app: limit, need: 50 }]);
  now += 1_802_000_000;
  expect(await left()).toBe(50);
  expect((await quota.inspect(limit)).tokens).toBe(50);
  await quota.grant({ ...sender, seq: 2 }, [{ ...asked, app: limit, granted: 50, spent: 50, need: 0 }]);
  now += 1_800_000_000;
  expect(await left()).toBe(50);
  now += 1_001_000;
  expect(await left()).toBe(0);
  expect((await quota.inspect(limit)).tokens).toBe(100);
  await store.close();
});
