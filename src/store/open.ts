/** Opens the store that a configuration names: "embedded" or the url of a Redis. */
import { createEmbeddedStore } from "./embedded/embedded-store.js";
import { createRedisStore, type RedisStoreOptions } from "./redis/redis-store.js";
import type { Store } from "./store.js";

export function openStore(url: string, options: Omit<RedisStoreOptions, "url"> = {}): Store {
  return url === "embedded" ? createEmbeddedStore() : createRedisStore({ ...options, url });
}
