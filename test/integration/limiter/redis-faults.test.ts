/** The limiter keeps its deadline and `on_store_failure` when Redis is killed, stopped, slow or out of memory. */

import { afterEach, describe, expect, it } from "vitest";
import type { AppLimits, OnStoreFailure } from "../../../src/core/app-limits.js";
import { standardProfile } from "../../../src/core/cost.js";
import { createLimiter, type Decision, type Limiter } from "../../../src/limiter/limiter.js";
import { createQuota } from "../../../src/quota/quota.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import { loopMs } from "../../support/loop-time.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { startTcpProxy } from "../../support/tcp-proxy.js";
import { pause, waitFor } from "../../support/wait-for.js";

const TIMEOUT_MS = 300;
const cluster = { id: "faults", capacity: 1_000_000, rate: 1_000_000, nodeTtlMs: 60_000 };

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

function app(onStoreFailure: OnStoreFailure): AppLimits {
  return {
    ...{ id: "app", guaranteed: 1000, burst: 1000, priority: 1, borrow: false },
    ...{ profile: standardProfile, onStoreFailure, dryRun: false },
  };
}

async function start(policy: OnStoreFailure, through: "directly" | "through a proxy" = "directly") {
  const server = await startRedis();
  endings.push(() => server.stop());
  const proxy = through === "directly" ? undefined : await startTcpProxy(server.port);
  if (proxy) endings.push(() => proxy.stop());
  const url = proxy ? `redis://127.0.0.1:${proxy.port}` : server.url;
  const store = createRedisStore({ url, deadlineMs: TIMEOUT_MS });
  const quota = createQuota(store, cluster);
  const levels: number[] = [];
  const limiter = createLimiter({
    ...{ node: "n1", target: quota, apps: [app(policy)], timeoutMs: TIMEOUT_MS, failOpenTokens: 20 },
    // Small leases, so that an outage takes effect soon.
    lease: { reserve: 20 },
    observer: { levelChanged: (level) => levels.push(level) },
  });
  endings.push(async () => {
    await limiter.close();
    await store.close();
  });
  return { server, proxy, store, quota, limiter, levels };
}

/** Sends requests continuously until `stop` is called, and records the decisions. */
function startAsking(limiter: Limiter) {
  const made: Decision[] = [];
  let slowestMs = 0;
  let stopped = false;
  const working = (async () => {
    while (!stopped) {
      const asked = loopMs();
      made.push(await limiter.check("app", "GET", 0));
      slowestMs = Math.max(slowestMs, loopMs() - asked);
      await pause(2);
    }
  })();
  return {
    made,
    slowestMs: () => slowestMs,
    spent: () => made.filter((decision) => decision.allowed).reduce((sum, { cost }) => sum + cost, 0),
    async until(what: string, holds: (latest: Decision) => boolean) {
      await waitFor(what, () => made.length > 0 && holds(made.at(-1)!));
    },
    async stop() {
      stopped = true;
      await working;
    },
  };
}

const faults: {
  name: string;
  happen(server: RedisServer): unknown;
  pass(server: RedisServer): Promise<unknown> | unknown;
}[] = [
  { name: "killed", happen: (server) => server.kill(), pass: (server) => server.restart() },
  { name: "stopped", happen: (server) => server.pause(), pass: (server) => server.resume() },
];

describe.each(faults)("a Redis that is $name", ({ happen, pass }) => {
  it("closed: 503 within the deadline, never 429; level 3; recovers afterwards", async () => {
    const { server, limiter, levels } = await start("closed");
    const asking = startAsking(limiter);
    await asking.until("requests to pass", (decision) => decision.allowed);
    await happen(server);
    await asking.until("the policy to apply", (decision) => decision.code === "store_unavailable");
    await waitFor("level 3", () => limiter.stats().level === 3);
    await pass(server);
    await asking.until("requests to pass again", (decision) => decision.allowed);
    await waitFor("level 0", () => limiter.stats().level === 0);
    await asking.stop();
    expect(new Set(asking.made.map((decision) => decision.code))).toEqual(new Set(["ok", "store_unavailable"]));
    expect(asking.slowestMs()).toBeLessThan(TIMEOUT_MS * 4);
    expect(levels).toContain(3);
  });

  it("open: the allowance is admitted, and charged when Redis is back", async () => {
    const { server, quota, limiter } = await start("open");
    const asking = startAsking(limiter);
    await asking.until("requests to pass", (decision) => decision.allowed);
    await happen(server);
    await waitFor("requests to pass without the store", () => limiter.stats().withoutStore > 30);
    await pass(server);
    await waitFor("level 0", () => limiter.stats().level === 0);
    await asking.stop();
    const spentBeforeTheEnd = asking.spent();
    await waitFor("the spend to be reported", async () => (await quota.inspect(app("open"))).spent > 0);
    await limiter.close();
    const books = await quota.inspect(app("open"));
    // A Redis that lost its data has only the spend since then; otherwise it has all of it.
    expect(books.spent).toBeLessThanOrEqual(spentBeforeTheEnd);
    expect(books.granted - books.returned).toBe(books.spent);
    expect(limiter.balances()[0]?.balance).toBe(0);
  });
});

describe("a Redis that is slow", () => {
  it.each([
    { delayMs: 50, level: 1 },
    { delayMs: 150, level: 2 },
  ])("by $delayMs ms: level $level, and back", async ({ delayMs, level }) => {
    const { proxy, limiter } = await start("open", "through a proxy");
    const asking = startAsking(limiter);
    await asking.until("requests to pass", (decision) => decision.allowed);
    proxy!.delayMs = delayMs;
    await waitFor(`level ${level}`, () => limiter.stats().level === level);
    proxy!.delayMs = 0;
    await waitFor("level 0", () => limiter.stats().level === 0);
    await asking.stop();
    expect(asking.slowestMs()).toBeLessThan(TIMEOUT_MS * 4);
  });

  it("by more than the deadline: level 3 and on_store_failure, within the deadline", async () => {
    const { proxy, limiter } = await start("closed", "through a proxy");
    const asking = startAsking(limiter);
    await asking.until("requests to pass", (decision) => decision.allowed);
    proxy!.delayMs = 500;
    await waitFor("level 3", () => limiter.stats().level === 3);
    await asking.until("the policy to apply", (decision) => decision.code === "store_unavailable");
    proxy!.delayMs = 0;
    await asking.until("requests to pass again", (decision) => decision.allowed);
    await asking.stop();
    expect(asking.slowestMs()).toBeLessThan(TIMEOUT_MS * 4);
  });
});

describe("a Redis that is out of memory", () => {
  it("grants nothing new: on_store_failure applies, and no request gets 429", async () => {
    const { server, limiter } = await start("closed");
    const asking = startAsking(limiter);
    await asking.until("requests to pass", (decision) => decision.allowed);
    await server.command("CONFIG", "SET", "maxmemory", "100kb");
    await asking.until("the policy to apply", (decision) => decision.code === "store_unavailable");
    await server.command("CONFIG", "SET", "maxmemory", "0");
    await asking.until("requests to pass again", (decision) => decision.allowed);
    await asking.stop();
    expect(asking.made.some((decision) => decision.code === "quota_exhausted")).toBe(false);
  });
});
