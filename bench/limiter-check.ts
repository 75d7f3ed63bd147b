/** Compares decisions per second of the limiter with rate-limiter-flexible, on Redis and in memory. */
import { Redis } from "ioredis";
import { RateLimiterMemory, RateLimiterRedis } from "rate-limiter-flexible";
import { createLimiter } from "../src/index.js";
import { startRedis } from "../test/support/redis-server.js";
import { atLeast, atMost, noBudget, type Result, result } from "./results.js";
import { alternate, median } from "./rounds.js";

const ROUNDS = 7;
/** A limit that is never reached, so that both sides only admit. */
const PLENTY = 1e9;
/** Decisions in progress at a time. */
const CONCURRENCY = 64;

interface Side {
  decide(): Promise<unknown> | unknown;
  decisions: number;
}

/** Decisions per second, CONCURRENCY at a time. Immediate decisions are not awaited, like in a proxy. */
async function perSecond({ decide, decisions }: Side): Promise<number> {
  let left = decisions;
  const started = performance.now();
  await Promise.all(
    Array.from({ length: CONCURRENCY }, async () => {
      while (left-- > 0) {
        const made = decide();
        if (made instanceof Promise) await made;
      }
    }),
  );
  return (decisions * 1000) / (performance.now() - started);
}

async function compare(name: string, ours: Side, theirs: Side, least: number): Promise<Result[]> {
  const pairs = await alternate(
    ROUNDS,
    () => perSecond(ours),
    () => perSecond(theirs),
  );
  return [
    result(name, median(pairs.map(([a, b]) => a / b)), "÷ rate-limiter-flexible, decisions/s", atLeast(least)),
    result(`${name}-per-second`, median(pairs.map(([a]) => a)), "decisions/s", noBudget),
  ];
}

async function ourSide(store: string) {
  const limiter = await createLimiter({
    store,
    apps: { app: { guaranteed: PLENTY, burst: PLENTY } },
    cluster: { capacity: PLENTY, rate: PLENTY },
  });
  const decide = () => {
    const made = limiter.check({ app: "app", method: "GET" });
    if (!(made instanceof Promise) && !made.allowed) throw new Error(`refused: ${made.code}`);
    return made;
  };
  return { limiter, decide };
}

export async function limiterCheck(): Promise<Result[]> {
  const server = await startRedis();
  const client = new Redis(server.url);
  try {
    const onRedis = await ourSide(server.url);
    const flexibleRedis = new RateLimiterRedis({ storeClient: client, points: PLENTY, duration: 60 });
    const withRedis = await compare(
      "limiter-check-redis",
      { decide: onRedis.decide, decisions: 400_000 },
      { decide: () => flexibleRedis.consume("app"), decisions: 8_000 },
      50,
    );
    const { syncs, local, remote } = onRedis.limiter.stats();
    await onRedis.limiter.close();

    const inMemory = await ourSide("embedded");
    const flexibleMemory = new RateLimiterMemory({ points: PLENTY, duration: 60 });
    const withMemory = await compare(
      "limiter-check-memory",
      { decide: inMemory.decide, decisions: 400_000 },
      { decide: () => flexibleMemory.consume("app"), decisions: 100_000 },
      1.5,
    );
    await inMemory.limiter.close();
    const calls = result("limiter-store-calls", syncs / (local + remote), "store calls per decision", atMost(0.01));
    return [...withRedis, ...withMemory, calls];
  } finally {
    client.disconnect();
    await server.stop();
  }
}
