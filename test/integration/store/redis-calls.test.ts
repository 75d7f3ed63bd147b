/** A store on one Redis: replies, error kinds, limits on calls, facts and closing. */
import { execFile } from "node:child_process";
import { createServer, type Server } from "node:net";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createRedisStore, type RedisStoreOptions } from "../../../src/store/redis/redis-store.js";
import { loopMs } from "../../support/loop-time.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { openTestStore, type TestStore } from "../../support/store-scripts.js";
import { startTcpProxy } from "../../support/tcp-proxy.js";
import { waitFor } from "../../support/wait-for.js";

let redis: RedisServer;
const open: TestStore[] = [];

beforeAll(async () => {
  redis = await startRedis();
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((store) => store.close()));
  await redis.command("FLUSHALL");
});
afterAll(() => redis.stop());

function openStore(options: Partial<RedisStoreOptions> = {}): TestStore {
  const store = openTestStore({ url: redis.url, ...options });
  open.push(store);
  return store;
}

describe("scripts", () => {
  it("replies with whole numbers as numbers and text as text", async () => {
    expect(await openStore().run("echo", [], ["8"])).toEqual([7, "8"]);
  });

  it("loads the library when Redis does not have it, and again after FUNCTION FLUSH, unnoticed by the caller", async () => {
    const store = openStore();
    await redis.command("FUNCTION", "FLUSH");
    expect(await store.run("count", ["c", "ids"], ["a"])).toEqual([1, 0]);
    expect(await store.run("count", ["c", "ids"], ["b"])).toEqual([2, 0]);
    await redis.command("FUNCTION", "FLUSH");
    const replies = await Promise.all(["c", "d", "e"].map((id) => store.run("count", ["c", "ids"], [id])));
    expect(replies).toEqual([
      [3, 0],
      [4, 0],
      [5, 0],
    ]);
  });

  it("sends one FCALL per call once the library is loaded", async () => {
    const store = openStore();
    await store.run("echo", [], ["x"]);
    await redis.command("CONFIG", "RESETSTAT");
    for (let i = 0; i < 5; i++) await store.run("echo", [], ["x"]);
    const stats = String(await redis.command("INFO", "commandstats"));
    expect(stats).toMatch(/cmdstat_fcall:calls=5,/);
    expect(stats).not.toMatch(/cmdstat_function/);
  });

  it("gives each call and message of one turn its own reply", async () => {
    const store = openStore();
    await store.run("echo", [], ["x"]);
    const [one, , other] = await Promise.all([
      store.run("echo", [], ["1"]),
      store.publish("channel", "message"),
      store.run("echo", [], ["2"]),
    ]);
    expect([one, other]).toEqual([
      [7, "1"],
      [7, "2"],
    ]);
  });

  it("works in the database of the url", async () => {
    await openStore({ url: `${redis.url}/3` }).run("add", ["k"], []);
    expect(await redis.command("INFO", "keyspace")).toMatch(/db3:keys=1/);
  });
});

describe("errors", () => {
  it.each([
    ["fail", /ERR broken on purpose/],
    ["wrongType", /WRONGTYPE/],
    ["nothing", /replied with null at position 2/],
  ])("a failing script (%s) is an error of kind script", async (name, message) => {
    const call = openStore().run(name as "fail", ["k"], []);
    await expect(call).rejects.toMatchObject({
      name: "StoreError",
      kind: "script",
      message: expect.stringMatching(message),
    });
  });

  it("does not send a failing script again", async () => {
    const store = openStore();
    await store.run("fail", [], []).catch(() => undefined);
    await redis.command("CONFIG", "RESETSTAT");
    await store.run("fail", [], []).catch(() => undefined);
    expect(await redis.command("INFO", "commandstats")).toMatch(/cmdstat_fcall:calls=1,/);
  });

  it("rejects with unavailable within the deadline without a server, and later at once", async () => {
    const proxy = await startTcpProxy(redis.port);
    await proxy.stop();
    const store = openStore({ url: `redis://127.0.0.1:${proxy.port}`, deadlineMs: 300 });
    const start = loopMs();
    await expect(store.run("echo", [], ["x"])).rejects.toMatchObject({ kind: "unavailable" });
    expect(loopMs() - start).toBeLessThan(900);
    await waitFor("a refusal at once", async () => {
      const again = loopMs();
      await store.run("echo", [], ["x"]).catch(() => undefined);
      return loopMs() - again < 100;
    });
    await expect(store.run("echo", [], ["x"])).rejects.toMatchObject({
      kind: "unavailable",
      message: expect.stringMatching(/ECONNREFUSED/),
    });
  });
});

describe("bounds", () => {
  it("rejects calls above the limit at once and accepts calls again after the replies", async () => {
    const proxy = await startTcpProxy(redis.port);
    const store = openStore({ url: `redis://127.0.0.1:${proxy.port}`, maxInFlight: 10 });
    await store.run("add", ["k"], []);
    proxy.delayMs = 200;
    const calls = Array.from({ length: 25 }, () => store.run("add", ["k"], []));
    const settled = await Promise.allSettled(calls);
    const kinds = settled.map((one) => (one.status === "fulfilled" ? "ok" : one.reason.kind));
    expect(kinds).toEqual([...Array(10).fill("ok"), ...Array(15).fill("overloaded")]);
    proxy.delayMs = 0;
    expect(await store.run("add", ["k"], [])).toEqual([12]);
    await proxy.stop();
  });

  it("counts a call as in flight until its reply, even after its deadline", async () => {
    const proxy = await startTcpProxy(redis.port);
    const store = openStore({ url: `redis://127.0.0.1:${proxy.port}`, maxInFlight: 3, deadlineMs: 2_000 });
    await store.run("add", ["k"], []);
    proxy.delayMs = 500;
    const calls = Array.from({ length: 3 }, () => store.run("add", ["k"], [], { deadlineMs: 50 }));
    for (const call of calls) await expect(call).rejects.toMatchObject({ kind: "timeout" });
    await expect(store.run("add", ["k"], [])).rejects.toMatchObject({ kind: "overloaded" });
    await waitFor("room", () => store.run("add", ["k"], []));
    await proxy.stop();
  });

  it("ends a call at the deadline of its own", async () => {
    const proxy = await startTcpProxy(redis.port);
    const store = openStore({ url: `redis://127.0.0.1:${proxy.port}`, deadlineMs: 5_000 });
    await store.run("add", ["k"], []);
    proxy.delayMs = 1_000;
    const start = loopMs();
    await expect(store.run("add", ["k"], [], { deadlineMs: 100 })).rejects.toMatchObject({ kind: "timeout" });
    expect(loopMs() - start).toBeLessThan(900);
    await proxy.stop();
  });
});

describe("inspect", () => {
  it("reports version, policy and latency, without warnings for noeviction", async () => {
    const facts = await openStore().inspect();
    expect(facts).toMatchObject({
      kind: "redis",
      nodes: 1,
      connectedNodes: 1,
      evictionPolicy: "noeviction",
      warnings: [],
    });
    expect(facts.version).toMatch(/^[0-9]+\.[0-9]+\.[0-9]+$/);
    expect(facts.latencyMs).toBeGreaterThan(0);
  });

  it("warns of any other eviction policy", async () => {
    await redis.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    try {
      const facts = await openStore().inspect();
      expect(facts.evictionPolicy).toBe("allkeys-lru");
      expect(facts.warnings).toEqual([expect.stringMatching(/evicts keys .*allkeys-lru.*noeviction/)]);
    } finally {
      await redis.command("CONFIG", "SET", "maxmemory-policy", "noeviction");
    }
  });

  it("rejects calls to a Redis older than 7 and states what is needed", async () => {
    const old = await startOldRedis();
    const store = openStore({ url: `redis://127.0.0.1:${old.port}`, deadlineMs: 500 });
    const refusal = {
      kind: "unavailable",
      message: expect.stringMatching(/does not support functions\. Tollgate needs Redis 7\.0 or later, or Valkey/),
    };
    await expect(store.run("echo", [], ["x"])).rejects.toMatchObject(refusal);
    await expect(store.inspect()).rejects.toMatchObject(refusal);
    await store.close();
    await new Promise((resolve) => old.server.close(resolve));
  });
});

describe("close", () => {
  it("finishes the calls in flight, rejects new ones and can be called twice", async () => {
    const proxy = await startTcpProxy(redis.port);
    const store = openTestStore({ url: `redis://127.0.0.1:${proxy.port}` });
    await store.run("add", ["k"], []);
    proxy.delayMs = 200;
    const pending = store.run("add", ["k"], []);
    const closing = store.close();
    await expect(store.run("add", ["k"], [])).rejects.toMatchObject({ kind: "closed" });
    await expect(store.inspect()).rejects.toMatchObject({ kind: "closed" });
    expect(await pending).toEqual([2]);
    await closing;
    await store.close();
    await waitFor("the connection to be gone", () => proxy.connections() === 0);
    await proxy.stop();
  });

  it("rejects a call without a reply", async () => {
    const proxy = await startTcpProxy(redis.port);
    const store = openTestStore({ url: `redis://127.0.0.1:${proxy.port}`, deadlineMs: 300 });
    await store.run("add", ["k"], []);
    proxy.silenceAll();
    const pending = store.run("add", ["k"], [], { deadlineMs: 60_000 });
    const outcome = expect(pending).rejects.toMatchObject({ kind: "closed" });
    const start = loopMs();
    await store.close();
    await outcome;
    expect(loopMs() - start).toBeLessThan(3_000);
    await proxy.stop();
  });

  it("closes a store that never connected", async () => {
    const store = openTestStore({ url: "redis://127.0.0.1:1", deadlineMs: 200 });
    await expect(store.run("echo", [], ["x"])).rejects.toMatchObject({ kind: "unavailable" });
    await store.close();
    await expect(store.run("echo", [], ["x"])).rejects.toMatchObject({ kind: "closed" });
  });
});

it("lets the process exit after close, also when Redis was never reachable", async () => {
  for (const [url, printed] of [
    [redis.url, "7,hello"],
    ["redis://127.0.0.1:1", "unavailable"],
    ["redis-cluster://127.0.0.1:1", "unavailable"],
    ["redis-sentinel://127.0.0.1:1/name", "unavailable"],
  ] as const) {
    const args = ["--import", "tsx", "test/support/open-and-close.ts", url];
    const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { timeout: 60_000 });
    expect([stdout.trim(), stderr]).toEqual([printed, ""]);
  }
});

it("rejects an invalid url before it connects", () => {
  expect(() => createRedisStore("http://127.0.0.1:6379")).toThrow(/invalid store url/);
});

/** Replies like Redis 6.2, which has no functions. */
async function startOldRedis(): Promise<{ port: number; server: Server }> {
  const info = "# Server\r\nredis_version:6.2.14\r\nloading:0\r\n";
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (data) => {
      for (const command of data.toString().split(/(?=\*[0-9]+\r\n)/)) {
        if (/\r\ninfo\r\n/i.test(command)) socket.write(`$${info.length}\r\n${info}\r\n`);
        else if (/\r\n(fcall|function)\r\n/i.test(command)) socket.write("-ERR unknown command `FCALL`, with args\r\n");
        else socket.write("+OK\r\n");
      }
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  return { port: typeof address === "object" && address !== null ? address.port : 0, server };
}
