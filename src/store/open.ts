/** Opens the configured store: "embedded" or a Redis URL. */
import { createEmbeddedStore } from "./embedded/embedded-store.js";
import { createRedisStore, type RedisStoreOptions } from "./redis/redis-store.js";
import type { Store } from "./store.js";

/** Opens a store by its URL: "embedded", redis://…, rediss://…, redis-cluster://… or redis-sentinel://…/name. The caller closes it. */
export function openStore(url: string, options: Omit<RedisStoreOptions, "url"> = {}): Store {
  return url === "embedded" ? createEmbeddedStore() : createRedisStore({ ...options, url });
}
