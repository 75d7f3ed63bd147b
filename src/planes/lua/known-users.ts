/** Valid user names. */
import { type Cache, keep, newCache } from "./cache.js";

const users: Cache<true> = newCache();

export function isKnownUser(name: string): boolean {
  return users.values[name] !== undefined;
}

export function rememberUser(name: string): void {
  if (!isKnownUser(name)) keep(users, name, true);
}
