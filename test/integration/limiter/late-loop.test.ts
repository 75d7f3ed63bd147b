/** A process whose event loop is late does not mistake its own delay for a slow store; a store that is slow is still found. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { afterEach, describe, expect, it } from "vitest";
import type { AppLimits } from "../../../src/core/app-limits.js";
import { standardProfile } from "../../../src/core/cost.js";
import { createLimiter, type Decision } from "../../../src/limiter/limiter.js";
import { createQuota } from "../../../src/quota/quota.js";
import { createIpcStore } from "../../../src/store/ipc/ipc-store.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import type { Store } from "../../../src/store/store.js";
import { startRedis } from "../../support/redis-server.js";
import { startTcpProxyProcess } from "../../support/tcp-proxy-process.js";
import { pause, waitFor } from "../../support/wait-for.js";

/** Shorter than the pauses, so that every timer of a call in flight expires during one. */
const TIMEOUT_MS = 150;
const BLOCK_MS = 300;
const cluster = { id: "late", capacity: 1_000_000, rate: 1_000_000, nodeTtlMs: 60_000 };
const primaryProgram = new URL("../../support/store-primary.ts", import.meta.url).pathname;

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

async function redisUrl(): Promise<{ url: string; port: number }> {
  const server = await startRedis();
  endings.push(() => server.stop());
  return server;
}

/** The store of the primary, which is another process. */
async function storeOfPrimary(): Promise<Store> {
  const primary: ChildProcess = fork(primaryProgram, { execArgv: ["--import", "tsx"] });
  endings.push(async () => {
    const gone = once(primary, "exit");
    primary.kill("SIGKILL");
    await gone;
  });
  await once(primary, "message");
  return createIpcStore(primary, { deadlineMs: TIMEOUT_MS });
}

function start(store: Store) {
  const app: AppLimits = {
    ...{ id: "app", guaranteed: 100_000, burst: 100_000, priority: 1, borrow: false },
    ...{ profile: standardProfile, onStoreFailure: "closed", dryRun: false },
  };
  const levels: number[] = [];
  const outcomes: string[] = [];
  const limiter = createLimiter({
    ...{ node: "n1", target: createQuota(store, cluster), apps: [app], timeoutMs: TIMEOUT_MS },
    // Small leases, so that many requests need a sync.
    lease: { reserve: 5, syncIntervalMs: 20 },
    observer: {
      levelChanged: (level) => levels.push(level),
      synced: (outcome) => void outcomes.push(outcome),
    },
  });
  endings.push(async () => {
    await limiter.close();
    await store.close();
  });
  return { limiter, levels, outcomes };
}

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

type Started = ReturnType<typeof start>;

/** Sends requests continuously while the event loop is blocked again and again, in all of its phases. */
async function askWhileLate({ limiter, outcomes }: Started, rounds: number): Promise<Decision[]> {
  const made: Decision[] = [];
  const asked: Promise<unknown>[] = [];
  const ask = () => asked.push(Promise.resolve(limiter.check("app", "GET", 0)).then((one) => made.push(one)));
  for (let round = 0; round < rounds; round++) {
    const before = outcomes.length;
    for (let i = 0; i < 20; i++) ask();
    // Before the message was written, after it was, in a timer, and right after one.
    if (round % 4 === 0) block(BLOCK_MS);
    if (round % 4 === 1) await new Promise<void>((resolve) => setImmediate(resolve)).then(() => block(BLOCK_MS));
    if (round % 4 === 2) await pause(1).then(() => block(BLOCK_MS));
    if (round % 4 === 3) setTimeout(() => setImmediate(() => block(BLOCK_MS)), 0);
    await waitFor("a sync", () => outcomes.length > before, { everyMs: 2 });
  }
  await Promise.all(asked);
  return made;
}

describe.each([
  ["Redis", async () => createRedisStore({ url: (await redisUrl()).url, deadlineMs: TIMEOUT_MS })],
  ["the embedded store of the primary", storeOfPrimary],
] as const)("an event loop that is late, with %s", (_name, open) => {
  it("leaves the degradation level at 0 and refuses nobody", async () => {
    const started = start(await open());
    await waitFor("the first grant", async () => (await started.limiter.check("app", "GET", 0)).allowed);
    await waitFor("level 0", () => started.limiter.stats().level === 0);
    started.levels.length = 0;
    started.outcomes.length = 0;
    const made = await askWhileLate(started, 12);
    expect(made.filter(({ allowed }) => !allowed)).toEqual([]);
    expect(made.filter(({ source }) => source === "without_store")).toEqual([]);
    expect(started.outcomes.filter((outcome) => outcome !== "ok")).toEqual([]);
    // On a busy machine the store itself can be slow, which is level 1. The delays of the loop would be level 2.
    expect(started.levels.filter((level) => level > 1)).toEqual([]);
  });
});

describe("a store that replies after 200 ms", () => {
  it("raises the degradation level, also while the event loop is late", async () => {
    const { port } = await redisUrl();
    const proxy = await startTcpProxyProcess(port);
    endings.push(() => proxy.stop());
    const store = createRedisStore({ url: `redis://127.0.0.1:${proxy.port}`, deadlineMs: 2_000 });
    const { limiter, levels } = start(store);
    await waitFor("the first grant", async () => (await limiter.check("app", "GET", 0)).allowed);
    await waitFor("level 0", () => limiter.stats().level === 0);
    levels.length = 0;
    await proxy.setDelay(200);
    const asking = setInterval(() => void limiter.check("app", "GET", 0), 1);
    endings.push(() => clearInterval(asking));
    const blocking = setInterval(() => block(20), 40);
    endings.push(() => clearInterval(blocking));
    await waitFor("level 2", () => levels.includes(2) || levels.includes(3));
  });

  it("or not at all is found by a process that is always late", async () => {
    const { port } = await redisUrl();
    const proxy = await startTcpProxyProcess(port);
    endings.push(() => proxy.stop());
    const store = createRedisStore({ url: `redis://127.0.0.1:${proxy.port}`, deadlineMs: TIMEOUT_MS });
    const { limiter, outcomes } = start(store);
    await waitFor("the first grant", async () => (await limiter.check("app", "GET", 0)).allowed);
    await proxy.setDelay(60_000);
    const asking = setInterval(() => void limiter.check("app", "GET", 0), 1);
    endings.push(() => clearInterval(asking));
    const blocking = setInterval(() => block(50), 55);
    endings.push(() => clearInterval(blocking));
    await waitFor("a failed sync", () => outcomes.some((outcome) => outcome !== "ok"));
    await waitFor("level 3", () => limiter.stats().level === 3);
  });
});
