/** An embedded store and one on a real Redis, empty when opened. The Redis runs as long as the test file. */
import { afterAll, beforeAll } from "vitest";
import { createEmbeddedStore } from "../../src/store/embedded/embedded-store.js";
import { createRedisStore } from "../../src/store/redis/redis-store.js";
import type { Store } from "../../src/store/store.js";
import { type RedisServer, startRedis } from "./redis-server.js";

/** For `describe.each` at the top level of a file. */
export function twoStores(deadlineMs: number): [string, () => Promise<Store>][] {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.stop());
  return [
    ["embedded", async () => createEmbeddedStore()],
    [
      "redis",
      async () => {
        await redis.command("FLUSHALL");
        return createRedisStore({ url: redis.url, deadlineMs });
      },
    ],
  ];
}
