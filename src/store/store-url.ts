/** Which URLs name a store. Apart from `open.ts`, because the configuration needs no clients of stores. */
import { isRedisUrl, parseRedisUrl } from "./redis/redis-url.js";
import type { StoreKind } from "./store.js";

export const STORE_URLS = "embedded, redis://…, rediss://…, redis-cluster://… or redis-sentinel://…/name";

/** Throws an error that says what is wrong, without the URL, which may contain a password. */
export function storeKindOf(url: string): StoreKind {
  if (url === "embedded") return "embedded";
  if (!isRedisUrl(url)) throw new Error(`must be ${STORE_URLS}`);
  return parseRedisUrl(url).kind;
}
