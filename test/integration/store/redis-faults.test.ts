/** Faults of Redis: calls end within their deadline, take effect once, and work again afterwards. */
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { type Load, startLoad } from "../../support/load.js";
import { loopMs } from "../../support/loop-time.js";
import { type RedisServer, type StartRedisOptions, startRedis } from "../../support/redis-server.js";
import { openTestStore, type TestStore } from "../../support/store-scripts.js";
import { startTcpProxy } from "../../support/tcp-proxy.js";
import { waitFor } from "../../support/wait-for.js";

const DEADLINE_MS = 400;
const open: TestStore[] = [];

afterEach(() => Promise.all(open.splice(0).map((store) => store.close())));

async function start(options: StartRedisOptions = {}): Promise<RedisServer> {
  const redis = await startRedis(options);
  onTestFinished(() => redis.stop());
  return redis;
}

function openStore(port: number, options: { maxInFlight?: number; deadlineMs?: number } = {}): TestStore {
  const store = openTestStore({ url: `redis://127.0.0.1:${port}`, deadlineMs: DEADLINE_MS, ...options });
  open.push(store);
  return store;
}

async function proxyTo(redis: RedisServer) {
  const proxy = await startTcpProxy(redis.port);
  onTestFinished(() => proxy.stop());
  return proxy;
}

async function untilWell(load: Load, calls = 200): Promise<void> {
  load.streak = 0;
  await waitFor(`${calls} successful calls in a row`, () => load.streak >= calls);
}

function expectNothingStrange(load: Load): void {
  expect(load.foreign).toEqual([]);
  expect(load.slowestMs).toBeLessThan(3 * DEADLINE_MS);
}

describe("Redis is unreachable", () => {
  it("survives restarts of Redis under load", async () => {
    const redis = await start();
    const store = openStore(redis.port);
    const load = startLoad(20, (id) => store.run("count", ["c", "ids"], [id]));
    await untilWell(load);
    for (let i = 0; i < 2; i++) {
      await redis.restart();
      await untilWell(load);
    }
    await load.stop();
    expectNothingStrange(load);
    expect([...load.outcomes.keys()].filter((kind) => !["ok", "unavailable", "timeout"].includes(kind))).toEqual([]);
  });

  it("makes a call wait for a short restart instead of failing it", async () => {
    const redis = await start();
    const store = openStore(redis.port, { deadlineMs: 10_000 });
    await store.run("add", ["k"], []);
    await redis.kill();
    const call = store.run("add", ["k"], []);
    await redis.restart();
    expect(await call).toEqual([1]);
  });

  it("fails calls within the deadline while Redis is gone, and continues when it is back", async () => {
    const redis = await start();
    const store = openStore(redis.port);
    const load = startLoad(20, (id) => store.run("count", ["c", "ids"], [id]));
    await untilWell(load);
    await redis.kill();
    await waitFor("refusals", () => (load.outcomes.get("unavailable") ?? 0) > 100);
    await redis.restart();
    await untilWell(load);
    await load.stop();
    expectNothingStrange(load);
  });

  it("keeps the deadline and the limit while Redis is stopped, and continues when it resumes", async () => {
    const redis = await start();
    const store = openStore(redis.port, { maxInFlight: 50 });
    await store.run("add", ["k"], []);
    redis.pause();
    const began = loopMs();
    const first = await Promise.allSettled(Array.from({ length: 60 }, () => store.run("add", ["k"], [])));
    expect(loopMs() - began).toBeLessThan(3 * DEADLINE_MS);
    const kinds = first.map((one) => (one.status === "fulfilled" ? "ok" : one.reason.kind));
    expect(kinds).toEqual([...Array(50).fill("timeout"), ...Array(10).fill("overloaded")]);
    const load = startLoad(40, (id) => store.run("count", ["c", "ids"], [id]));
    // By then the silent connection has been closed, and a new one cannot be established.
    await waitFor("refusals", () => (load.outcomes.get("unavailable") ?? 0) > 100);
    redis.resume();
    await untilWell(load, 500);
    await load.stop();
    expectNothingStrange(load);
  });

  it("reconnects when a connection is silent although it is open", async () => {
    const redis = await start();
    const proxy = await proxyTo(redis);
    const store = openStore(proxy.port);
    await store.run("add", ["k"], []);
    proxy.silenceAll();
    await expect(store.run("add", ["k"], [])).rejects.toMatchObject({ kind: "timeout" });
    expect(await waitFor("a successful call", () => store.run("add", ["k"], []))).toEqual([2]);
  });
});

describe("replies get lost", () => {
  it("repeats a call whose reply is lost: counted once, first reply", async () => {
    const redis = await start();
    const proxy = await proxyTo(redis);
    const store = openStore(proxy.port);
    expect(await store.run("count", ["c", "ids"], ["before"])).toEqual([1, 0]);
    const lost = proxy.loseReply(":2\r\n");
    expect(await store.run("count", ["c", "ids"], ["during"])).toEqual([2, 1]);
    await lost;
    expect(await redis.command("GET", "c")).toBe("2");
  });

  it("repeats every call that a reset connection carried", async () => {
    const redis = await start();
    const proxy = await proxyTo(redis);
    const store = openStore(proxy.port, { deadlineMs: 5_000 });
    await store.run("count", ["c", "ids"], ["first"]);
    proxy.delayMs = 50;
    const calls = Array.from({ length: 100 }, (_, i) => store.run("count", ["c", "ids"], [`id-${i}`]));
    await waitFor("the calls to have run", async () => (await redis.command("GET", "c")) === "101");
    proxy.resetAll();
    const replies = await Promise.all(calls);
    expect(new Set(replies.map(([count]) => count)).size).toBe(100);
    expect(await redis.command("GET", "c")).toBe("101");
  });

  it("counts every call once under load with resets", async () => {
    const redis = await start();
    const proxy = await proxyTo(redis);
    const store = openStore(proxy.port, { deadlineMs: 5_000 });
    const load = startLoad(20, (id) => store.run("count", ["c", "ids"], [id]));
    for (let i = 0; i < 10; i++) {
      await untilWell(load, 50);
      proxy.resetAll();
    }
    await load.stop();
    expect([...load.outcomes.keys()]).toEqual(["ok"]);
    expect(await redis.command("GET", "c")).toBe(String(load.outcomes.get("ok")));
  });

  it("keeps the deadline when every reply is slow", async () => {
    const redis = await start();
    const proxy = await proxyTo(redis);
    const store = openStore(proxy.port, { maxInFlight: 20 });
    await store.run("add", ["k"], []);
    proxy.delayMs = 3 * DEADLINE_MS;
    const load = startLoad(40, (id) => store.run("count", ["c", "ids"], [id]));
    await waitFor("overload", () => (load.outcomes.get("overloaded") ?? 0) > 50);
    proxy.delayMs = 0;
    await load.stop();
    expectNothingStrange(load);
    // Fewer concurrent calls than the limit of calls in flight: none of them may fail.
    const later = startLoad(10, (id) => store.run("count", ["c", "ids"], [`later-${id}`]));
    await untilWell(later);
    await later.stop();
    expectNothingStrange(later);
  });
});

describe("Redis cannot serve", () => {
  it("waits while Redis loads its data", async () => {
    const redis = await start({ args: ["--appendonly", "no"] });
    await redis.command("EVAL", "for i = 1, 50000 do redis.call('SET', 'k' .. i, i) end", 0);
    await redis.command("SAVE");
    // The delay is in microseconds per key and makes LOADING last some seconds.
    await redis.restart({
      args: ["--key-load-delay", "15", "--loading-process-events-interval-bytes", "1024"],
      waitUntilReady: false,
    });
    await waitFor("LOADING", () =>
      redis.command("GET", "k1").then(
        () => false,
        (error) => /LOADING/.test(error.message),
      ),
    );
    const store = openStore(redis.port, { deadlineMs: 15_000 });
    expect(await store.run("add", ["k1"], [])).toEqual([2]);
  });

  it("rejects with out_of_memory for a script that needs memory, and still runs one that frees it", async () => {
    const redis = await start({ args: ["--maxmemory-policy", "noeviction"] });
    const store = openStore(redis.port);
    await store.run("put", ["big"], ["x".repeat(1_000_000)]);
    await redis.command("CONFIG", "SET", "maxmemory", 1_000_000);
    await expect(store.run("put", ["more"], ["x"])).rejects.toMatchObject({ kind: "out_of_memory" });
    expect(await store.run("free", ["big"], [])).toEqual([1]);
    await redis.command("CONFIG", "SET", "maxmemory", 0);
    expect(await store.run("put", ["more"], ["x"])).toEqual([1]);
  });

  it("does not retry when there is no memory", async () => {
    const redis = await start({ args: ["--maxmemory", "1", "--maxmemory-policy", "noeviction"] });
    const store = openStore(redis.port);
    await store.run("put", ["k"], ["x"]).catch(() => undefined);
    await redis.command("CONFIG", "RESETSTAT");
    await expect(store.run("put", ["k"], ["x"])).rejects.toMatchObject({ kind: "out_of_memory" });
    const stats = String(await redis.command("INFO", "commandstats"));
    const calls = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=([0-9]+)/g)].map((match) => Number(match[1]));
    expect(calls.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(2);
  });

  it("reconnects when its Redis has become a replica, and continues when it is a primary again", async () => {
    const primary = await start();
    const redis = await start();
    const store = openStore(redis.port);
    await store.run("add", ["k"], []);
    const clients = String(await redis.command("CLIENT", "LIST"));
    await redis.command("REPLICAOF", "127.0.0.1", primary.port);
    // The kind is "timeout" if the deadline passes while the store reconnects.
    await expect(store.run("add", ["k"], [])).rejects.toMatchObject({
      kind: expect.stringMatching(/^(unavailable|timeout)$/),
    });
    await redis.command("REPLICAOF", "NO", "ONE");
    await waitFor("a successful call", () => store.run("add", ["k"], []));
    const after = String(await redis.command("CLIENT", "LIST"));
    expect(connectionId(after)).not.toBe(connectionId(clients));
  });
});

function connectionId(clients: string): string | undefined {
  return /^id=([0-9]+) .*name=tollgate/m.exec(clients)?.[1];
}
