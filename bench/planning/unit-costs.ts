/** Measures what a sync message, one app in it, a heartbeat and the keys of apps and nodes cost a real Redis. */
import { createQuota } from "../../src/quota/quota.js";
import { createRedisStore } from "../../src/store/redis/redis-store.js";
import { type RedisServer, startRedis } from "../../test/support/redis-server.js";
import { median } from "../rounds.js";
import { cpuNs } from "../support/cpu-time.js";
import { startSide } from "../support/fleet.js";
import type { UnitCosts } from "./model.js";

const ROUNDS = 5;
const CALLS = 1_000;
const MANY = 50;
const AMPLE = { guaranteed: 100_000, burst: 1_000_000 };

export async function measureUnitCosts(): Promise<UnitCosts> {
  const server = await startRedis();
  try {
    return { ...(await cpuCosts(server)), ...(await memoryCosts(server)) };
  } finally {
    await server.stop();
  }
}

/** One call at a time: a node that sends few messages gets no benefit from those of others. */
async function cpuCosts({ url, pid }: RedisServer) {
  const store = createRedisStore({ url, deadlineMs: 5_000 });
  const quota = createQuota(store, { id: "cost", capacity: 1e9, rate: 1e9, nodeTtlMs: 30_000, shards: 1 });
  const shard = quota.shards[0]!;
  const seqs = { 1: 0, [MANY]: 0 } as Record<number, number>;
  const costOf = async (call: () => Promise<unknown>, calls: number) => {
    const before = cpuNs([pid]);
    for (let i = 0; i < calls; i++) await call();
    return (cpuNs([pid]) - before) / 1_000 / calls;
  };
  const grant = (count: number) => () => {
    const sent = seqs[count]!;
    seqs[count] = sent + 1;
    const requests = Array.from({ length: count }, (_, i) => ({
      app: { id: `app-${i}`, ...AMPLE, priority: 1, borrow: false },
      granted: sent,
      spent: sent,
      returned: 0,
      need: 1,
      want: 1,
    }));
    return shard.grant({ node: `n${count}`, epoch: 1, seq: sent + 1 }, requests);
  };
  const beat = () => shard.heartbeat({ node: "n1", epoch: 1 });
  const rounds: { one: number; many: number; heartbeat: number }[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const one = await costOf(grant(1), CALLS);
    const many = await costOf(grant(MANY), CALLS / 5);
    const heartbeat = await costOf(beat, CALLS);
    // The first round is the warm-up.
    if (round > 0) rounds.push({ one, many, heartbeat });
  }
  await store.close();
  const usPerEntry = median(rounds.map(({ one, many }) => (many - one) / (MANY - 1)));
  const usPerCall = median(rounds.map(({ one }) => one)) - usPerEntry;
  return { usPerCall, usPerEntry, usPerHeartbeat: median(rounds.map(({ heartbeat }) => heartbeat)) };
}

const NODES = 4;
const APPS = 2_000;
const MANY_NODES = 200;

/** From the memory of Redis after first requests of one node and of several to the same apps, and of many nodes to one app. */
async function memoryCosts(server: RedisServer) {
  const one = await memoryWith(server, 1, APPS);
  const several = await memoryWith(server, NODES, APPS);
  const many = await memoryWith(server, MANY_NODES, 1);
  const bytesPerHeldLease = (several - one) / (NODES - 1) / APPS;
  return { bytesPerHeldLease, bytesPerApp: one / APPS - bytesPerHeldLease, bytesPerNode: many / MANY_NODES };
}

/** Bytes that the keys of these nodes and apps need. */
async function memoryWith(server: RedisServer, nodes: number, apps: number): Promise<number> {
  await server.command("FLUSHALL");
  const side = await startSide();
  try {
    const names = Array.from({ length: nodes }, (_, i) => `node-${i}`);
    await side.tell({ do: "open", url: server.url, nodes: names, apps, limits: AMPLE });
    await side.tell({ do: "touch", perSecond: 2_000 });
    let bytes = 0;
    const keys = (await server.command("KEYS", "*")) as string[];
    for (const key of keys) bytes += Number(await server.command("MEMORY", "USAGE", key, "SAMPLES", 0));
    return bytes;
  } finally {
    side.end();
  }
}
