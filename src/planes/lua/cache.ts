/** A table of computed values: a lookup is cheaper than computing. Clients choose the keys, so a full one is emptied. */

export interface Cache<T> {
  values: { [key: string]: T | undefined };
  count: number;
}

const MAX_VALUES = 10000;

export function newCache<T>(): Cache<T> {
  return { values: {}, count: 0 };
}

/** For a key that is not in the cache. Returns the value. */
export function keep<T>(cache: Cache<T>, key: string, value: T): T {
  if (cache.count >= MAX_VALUES) {
    cache.values = {};
    cache.count = 0;
  }
  cache.values[key] = value;
  cache.count = cache.count + 1;
  return value;
}
