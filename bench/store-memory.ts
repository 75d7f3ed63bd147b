/** Memory of Redis per app and node, per value of a limit, and per connection. */
import { createLimiter } from "../src/index.js";
import { createSlots } from "../src/slots/slots.js";
import { createRedisStore } from "../src/store/redis/redis-store.js";
import { type RedisServer, startRedis } from "../test/support/redis-server.js";
import { noBudget, type Result, result } from "./results.js";

const APPS = 2_000;
const NODES = 4;
const VALUES = 5_000;
const CONNECTIONS = 10_000;

export async function storeMemory(): Promise<Result[]> {
  const bytes = (name: string, value: number, unit: string) => result(name, value, unit, noBudget);
  const first = await grown((redis) => spend(redis, 1));
  const all = await grown((redis) => spend(redis, NODES));
  return [
    bytes("store-memory-app", first / APPS, "bytes of Redis per app, with one node"),
    bytes("store-memory-app-node", (all - first) / (APPS * (NODES - 1)), "bytes more per app and further node"),
    bytes("store-memory-value", (await grown(useValues)) / VALUES, "bytes of Redis per value of a limit in use"),
    bytes("store-memory-connection", (await grown(connect)) / CONNECTIONS, "bytes of Redis per open connection"),
  ];
}

/** Bytes by which the memory of an empty Redis grows; `work` returns what to do before it stops. */
async function grown(work: (redis: RedisServer) => Promise<() => Promise<unknown>>): Promise<number> {
  const redis = await startRedis();
  try {
    const used = async () =>
      Number(/used_memory_dataset:(\d+)/.exec(String(await redis.command("INFO", "memory")))?.[1]);
    const before = await used();
    const end = await work(redis);
    const after = await used();
    await end();
    return after - before;
  } finally {
    await redis.stop();
  }
}

async function spend({ url }: RedisServer, nodes: number) {
  const ids = Array.from({ length: APPS }, (_, i) => `app-${i}`);
  const apps = Object.fromEntries(ids.map((id) => [id, { guaranteed: 1_000 }]));
  const cluster = { capacity: 1e9, rate: 1e9 };
  const limiters = await Promise.all(
    Array.from({ length: nodes }, (_, i) => createLimiter({ store: url, node: `node-${i}`, apps, cluster })),
  );
  for (const limiter of limiters) await Promise.all(ids.map((id) => limiter.take(id, 1)));
  return () => Promise.all(limiters.map((limiter) => limiter.close()));
}

async function useValues({ url }: RedisServer) {
  const limiter = await createLimiter({
    store: url,
    apps: { app: { guaranteed: 1_000_000 } },
    limits: [{ name: "per-user", key: ["user"], rate: "1000/h" }],
    maxValues: 2 * VALUES,
  });
  const common = { app: "app", host: "example.com", ip: "192.0.2.1" };
  const users = Array.from({ length: VALUES }, (_, i) => `user-${i}`);
  await Promise.all(users.map((user) => limiter.check({ ...common, user })));
  return () => limiter.close();
}

async function connect({ url }: RedisServer) {
  const store = createRedisStore(url);
  const slots = createSlots(store, "memory");
  const most = {
    maxPerPod: CONNECTIONS,
    maxTotal: CONNECTIONS,
    maxPerApp: 0,
    ratePerSecond: CONNECTIONS,
    burst: CONNECTIONS,
    leaseMs: 60_000,
  };
  for (let i = 0; i < CONNECTIONS; i++) {
    await slots.acquire(
      { proxy: "proxy", connection: `connection-${i}`, app: "default", pods: [`10.0.0.${i % 100}:80`] },
      most,
    );
  }
  return () => store.close();
}
