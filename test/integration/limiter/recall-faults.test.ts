/** Faults of Redis at the moment of a recall: deadlines are kept, the limit holds, and recalled tokens return afterwards. */
import { afterEach, describe, expect, it } from "vitest";
import type { AppLimits } from "../../../src/core/app-limits.js";
import { standardProfile } from "../../../src/core/cost.js";
import { recallChannel } from "../../../src/core/keys.js";
import { createLimiter, type Limiter } from "../../../src/limiter/limiter.js";
import { createQuota } from "../../../src/quota/quota.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import { loopMs } from "../../support/loop-time.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { pause, waitFor } from "../../support/wait-for.js";

const TIMEOUT_MS = 1_000;
const LIMIT = 100;
const cluster = { id: "recalls", capacity: 1_000_000, rate: 1_000_000, nodeTtlMs: 60_000 };
const app: AppLimits = {
  ...{ id: "app", guaranteed: 0.001, burst: LIMIT, priority: 1, borrow: false },
  ...{ profile: standardProfile, onStoreFailure: "closed", dryRun: false },
};

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

interface Node {
  limiter: Limiter;
  held(): number;
  /** Tokens that were taken. */
  taken: number;
  slowestMs: number;
  codes: Set<string>;
  /** Takes one token. */
  ask(): Promise<string>;
}

function startNode(server: RedisServer, name: string): Node {
  const store = createRedisStore({ url: server.url, deadlineMs: TIMEOUT_MS });
  const limiter = createLimiter({
    ...{ node: name, target: createQuota(store, cluster), apps: [app], timeoutMs: TIMEOUT_MS },
    // Only a recall makes the node return tokens within the time of the test.
    lease: { idleMs: 3_600_000, reportIntervalMs: 3_600_000 },
  });
  endings.push(async () => {
    await limiter.close();
    await store.close();
  });
  const node: Node = {
    limiter,
    held: () => limiter.balances()[0]!.balance,
    taken: 0,
    slowestMs: 0,
    codes: new Set(),
    ask,
  };
  async function ask(): Promise<string> {
    const asked = loopMs();
    const { allowed, code } = await limiter.take("app", 1);
    node.slowestMs = Math.max(node.slowestMs, loopMs() - asked);
    node.codes.add(code);
    if (allowed) node.taken++;
    return code;
  }
  return node;
}

/** Two nodes, of which one holds tokens that it does not use. */
async function start() {
  const server = await startRedis({ args: ["--appendonly", "yes", "--appendfsync", "always"] });
  endings.push(() => server.stop());
  const [holder, asker] = [startNode(server, "holder"), startNode(server, "asker")];
  await waitFor("the holder to have idle tokens", async () => (await holder.ask()) === "ok" && holder.held() >= 5);
  const inspector = createRedisStore({ url: server.url });
  endings.push(() => inspector.close());
  let recalls = 0;
  await inspector.subscribe(recallChannel("ratelimit:{recalls/0}:cluster"), () => recalls++);
  return { server, holder, asker, quota: createQuota(inspector, cluster), recalls: () => recalls };
}

/** Asks continuously until the first recall, then calls `fault` while it continues. */
async function askThrough({ asker, recalls }: Awaited<ReturnType<typeof start>>, fault: () => Promise<void>) {
  let over = false;
  const asking = (async () => {
    while (!over) {
      if ((await asker.ask()) !== "ok") await pause(5);
    }
  })();
  await waitFor("a recall", () => recalls() > 0, { everyMs: 1 });
  await fault();
  return async () => {
    over = true;
    await asking;
  };
}

const faults: [name: string, fault: (server: RedisServer, asker: Node) => Promise<void>][] = [
  [
    "killed",
    async (server, asker) => {
      await server.kill();
      await waitFor("the failure to be noticed", () => asker.codes.has("store_unavailable"));
      await server.restart();
    },
  ],
  [
    "stopped",
    async (server, asker) => {
      server.pause();
      await waitFor("the failure to be noticed", () => asker.codes.has("store_unavailable"));
      server.resume();
    },
  ],
];

describe.each(faults)("a Redis that is %s during a recall", (_name, fault) => {
  it("delays nobody beyond the deadline, and the recalled tokens are used afterwards, each once", async () => {
    const world = await start();
    const { server, holder, asker } = world;
    const stop = await askThrough(world, () => fault(server, asker));
    await waitFor("all tokens to be used", () => holder.taken + asker.taken >= LIMIT);
    await waitFor("a refusal", async () => (await asker.ask()) === "quota_exhausted");
    await stop();
    expect(holder.taken + asker.taken).toBe(LIMIT);
    expect(holder.held()).toBe(0);
    expect(asker.slowestMs).toBeLessThan(TIMEOUT_MS * 2);
    expect([...asker.codes].sort()).toEqual(["ok", "quota_exhausted", "store_unavailable"]);
  });
});

it("after FLUSHALL during a recall, at most one more bucket and the tokens on leases are spent", async () => {
  const world = await start();
  const { server, holder, asker, quota } = world;
  let before = 0;
  const stop = await askThrough(world, async () => {
    await server.command("FLUSHALL");
    before = holder.taken + asker.taken;
  });
  await waitFor("the new bucket to be used", () => holder.taken + asker.taken >= before + LIMIT);
  await waitFor("a refusal", async () => (await asker.ask()) === "quota_exhausted");
  await stop();
  // The old bucket was empty: what it had granted was spent, on leases, or in a reply.
  expect(holder.taken + asker.taken).toBeLessThanOrEqual(2 * LIMIT);
  expect(asker.slowestMs).toBeLessThan(TIMEOUT_MS * 2);
  await waitFor("the holder's tokens to be recalled", () => holder.held() === 0);
  const { tokens, granted, spent, returned } = await quota.inspect(app);
  expect(tokens + (granted - spent - returned)).toBeLessThanOrEqual(LIMIT);
});
