/** After a Redis that was killed, stopped or full for longer than a burst lasts: who stayed within the limit is not refused, who flooded pays. */
import { afterEach, expect, it } from "vitest";
import type { AppLimits } from "../../../src/core/app-limits.js";
import { standardProfile } from "../../../src/core/cost.js";
import { createLimiter, type Decision } from "../../../src/limiter/limiter.js";
import { createQuota } from "../../../src/quota/quota.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { pause, waitFor } from "../../support/wait-for.js";

const TIMEOUT_MS = 300;
const cluster = { id: "outage", capacity: 10_000, rate: 5_000, nodeTtlMs: 60_000 };

const app = (id: string, guaranteed: number, burst: number): AppLimits => ({
  ...{ id, guaranteed, burst, priority: 1, borrow: false },
  ...{ profile: standardProfile, onStoreFailure: "open", dryRun: false },
});
/** Its burst lasts for half a second, or for a second at half of its rate. */
const HALF = app("half", 400, 200);
const FLOOD = app("flood", 100, 100);
/** Together half of the rate of HALF, at most: a busy machine makes it less. */
const PAUSE_MS = 10;
const NODES = ["n1", "n2"];
/** Eight seconds of half of the rate: several bursts. */
const WITHOUT_STORE = 1_600;

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

async function start(args: string[]) {
  const server = await startRedis({ args });
  endings.push(() => server.stop());
  const nodes = NODES.map((node) => {
    // Each node has its own connection, so that they do not come back together.
    const store = createRedisStore({ url: server.url, deadlineMs: TIMEOUT_MS });
    const quota = createQuota(store, cluster);
    const limiter = createLimiter({ node, target: quota, apps: [HALF, FLOOD], timeoutMs: TIMEOUT_MS });
    endings.push(async () => {
      await limiter.close();
      await store.close();
    });
    return { limiter, quota };
  });
  const { quota } = nodes[0]!;
  // As a service does.
  const ticks = setInterval(() => quota.emergencyCheck(1_000, false).catch(() => undefined), 250);
  endings.push(() => clearInterval(ticks));
  return { server, nodes, quota, limiters: nodes.map(({ limiter }) => limiter) };
}

type Limiters = Awaited<ReturnType<typeof start>>["limiters"];

/** Sends requests of an app through all nodes until it is stopped. */
function startLoad(limiters: Limiters, id: string, pauseMs: number) {
  const made: Decision[] = [];
  let stopped = false;
  const working = limiters.map(async (limiter) => {
    while (!stopped) {
      void Promise.resolve(limiter.check(id, "GET", 0)).then((decision) => made.push(decision));
      await pause(pauseMs);
    }
  });
  return {
    made,
    withoutStore: () => made.filter(({ allowed, source }) => allowed && source === "without_store").length,
    async stop() {
      stopped = true;
      await Promise.all(working);
    },
  };
}

const durable = ["--appendonly", "yes", "--appendfsync", "always"];
const faults: {
  name: string;
  args: string[];
  happen(server: RedisServer): unknown;
  pass(server: RedisServer): unknown;
}[] = [
  { name: "killed", args: durable, happen: (server) => server.kill(), pass: (server) => server.restart() },
  { name: "stopped", args: durable, happen: (server) => server.pause(), pass: (server) => server.resume() },
  {
    name: "out of memory",
    args: durable,
    happen: (server) => server.command("CONFIG", "SET", "maxmemory", 1),
    pass: (server) => server.command("CONFIG", "SET", "maxmemory", 0),
  },
  { name: "killed and lost its data", args: [], happen: (server) => server.kill(), pass: (server) => server.restart() },
];

it.each(faults)(
  "a Redis that was $name: an app at half of its rate is not refused",
  async (fault) => {
    const { server, limiters } = await start(fault.args);
    const load = startLoad(limiters, "half", PAUSE_MS);
    await waitFor("requests to pass", () => load.made.length > 100);
    await fault.happen(server);
    await waitFor("several bursts to be spent", () => load.withoutStore() > WITHOUT_STORE);
    await fault.pass(server);
    await waitFor("level 0", () => limiters.every((limiter) => limiter.stats().level === 0));
    const before = load.made.length;
    // A debt would last longer than that.
    await waitFor("further requests", () => load.made.length > before + 400);
    await load.stop();
    expect(load.made.filter(({ allowed }) => !allowed)).toEqual([]);
  },
  120_000,
);

it.each(faults.slice(0, 3))(
  "a Redis that was $name: an app that flooded owes what exceeds its refill",
  async (fault) => {
    const { server, limiters, quota } = await start(fault.args);
    const load = startLoad(limiters, "flood", 2);
    await waitFor("the limit", () => load.made.some(({ code }) => code === "quota_exhausted"));
    const spentBefore = (await quota.inspect(FLOOD)).spent;
    const began = performance.now();
    // A busy machine decides without the store before, too, and has reported some of that.
    const decidedBefore = load.withoutStore();
    const withoutStore = () => load.withoutStore() - decidedBefore;
    await fault.happen(server);
    // Each node admits the whole limit.
    await waitFor("the limit to be exceeded", () => withoutStore() > 1_200);
    await load.stop();
    await fault.pass(server);
    const isReported = async () => (await quota.inspect(FLOOD)).spent - spentBefore >= withoutStore();
    await waitFor("both nodes to report", isReported);
    const seconds = (performance.now() - began) / 1000;
    const { tokens } = await quota.inspect(FLOOD);
    expect(tokens).toBeLessThanOrEqual(FLOOD.burst + FLOOD.guaranteed * (seconds + 1) - withoutStore());
  },
  120_000,
);
