/** Reads the connection keys of all routes in a Redis. */
import type { RedisServer } from "./redis-server.js";

/** Members of the sorted sets with this name (`global_conn`, `pod_conn:<pod>`, `released`), over all clusters and routes. */
export async function slotMembers(redis: Pick<RedisServer, "command">, name: string): Promise<number> {
  const keys = (await redis.command("KEYS", `ws:{*}:${name}`)) as string[];
  const counts = await Promise.all(keys.map(async (key) => Number(await redis.command("ZCARD", key))));
  return counts.reduce((sum, count) => sum + count, 0);
}
