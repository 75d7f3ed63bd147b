/** An in-memory keyspace with expiry. */
import type { Fields } from "./fields.js";
import type { SortedSet } from "./sorted-set.js";

export type Value =
  | { type: "string"; text: string }
  | { type: "hash"; fields: Fields }
  | { type: "zset"; set: SortedSet };

export type Keyspace = ReturnType<typeof createKeyspace>;

/** Keys with an expiry that are examined after each script, in addition to two per new one. */
const PURGE_STEPS = 16;

/** @param clock microseconds since 1970 */
export function createKeyspace(clock: () => number) {
  const values = new Map<string, Value>();
  const expiries = new Map<string, number>();
  let frozenAt: number | undefined;
  let sweep = expiries.entries();
  let newExpiries = 0;

  const keyspace = {
    now: () => frozenAt ?? clock(),
    get(key: string): Value | undefined {
      const value = values.get(key);
      if (value === undefined || !isExpired(key)) return value;
      keyspace.delete(key);
      return undefined;
    },
    /** Sets a value and keeps its expiry. */
    put(key: string, value: Value): void {
      keyspace.get(key);
      values.set(key, value);
    },
    delete(key: string): boolean {
      const alive = values.has(key) && !isExpired(key);
      values.delete(key);
      expiries.delete(key);
      return alive;
    },
    /** In milliseconds since 1970; undefined: never. */
    expireAt(key: string, atMs: number | undefined): void {
      if (atMs !== undefined && !expiries.has(key)) newExpiries++;
      if (atMs === undefined) expiries.delete(key);
      else expiries.set(key, atMs);
    },
    /** Number of keys in memory, including expired ones. */
    size: () => values.size,
    /** Runs `work` with a frozen clock, as Redis runs a script. */
    atomically<T>(work: () => T): T {
      frozenAt = clock();
      try {
        return work();
      } finally {
        purge();
        frozenAt = undefined;
      }
    },
  };

  /** Redis keeps a key through the millisecond in which it expires. */
  function isExpired(key: string): boolean {
    const atMs = expiries.get(key);
    return atMs !== undefined && Math.floor(keyspace.now() / 1000) > atMs;
  }

  /** Examines some more of the keys with an expiry: more than were added, so that memory is bounded. */
  function purge(): void {
    const steps = PURGE_STEPS + 2 * newExpiries;
    newExpiries = 0;
    for (let step = 0; step < steps; step++) {
      const next = sweep.next();
      if (next.done) {
        sweep = expiries.entries();
        return;
      }
      if (isExpired(next.value[0])) keyspace.delete(next.value[0]);
    }
  }

  return keyspace;
}
