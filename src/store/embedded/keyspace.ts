/** An in-memory keyspace with expiry, and the Redis commands that scripts may use. */
import type { RedisApi, RedisCall } from "../../scripts/redis-api.js";
import { CommandError, type Keys, type Value } from "./command.js";
import { COMMANDS } from "./commands.js";
import { numberText } from "./numbers.js";

export interface Keyspace extends RedisApi {
  /** Runs `work` with a frozen clock, as Redis runs a script. */
  atomically<T>(work: () => T): T;
  /** Number of keys in memory, including expired ones. */
  size(): number;
}

/** Keys with an expiry that are examined after each script, in addition to two per new one. */
const PURGE_STEPS = 16;

/** @param clock microseconds since 1970 */
export function createKeyspace(clock: () => number): Keyspace {
  const values = new Map<string, Value>();
  const expiries = new Map<string, number>();
  let frozenAt: number | undefined;
  let sweep = expiries.entries();
  let newExpiries = 0;

  const keys: Keys = {
    now: () => frozenAt ?? clock(),
    get(key) {
      const value = values.get(key);
      if (value === undefined || !isExpired(key)) return value;
      keys.delete(key);
      return undefined;
    },
    put(key, value) {
      keys.get(key);
      values.set(key, value);
    },
    delete(key) {
      const alive = values.has(key) && !isExpired(key);
      values.delete(key);
      expiries.delete(key);
      return alive;
    },
    expireAt(key, atMs) {
      if (atMs === undefined) {
        expiries.delete(key);
        return;
      }
      if (!expiries.has(key)) newExpiries++;
      expiries.set(key, atMs);
    },
  };

  /** Redis keeps a key through the millisecond in which it expires. */
  function isExpired(key: string): boolean {
    const atMs = expiries.get(key);
    return atMs !== undefined && Math.floor(keys.now() / 1000) > atMs;
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
      if (isExpired(next.value[0])) keys.delete(next.value[0]);
    }
  }

  function call(name: string, ...args: unknown[]): unknown {
    const command = COMMANDS.get(name);
    if (command === undefined) throw new CommandError(`ERR Unknown Redis command called from script: ${name}`);
    if (args.length < command.minArguments || args.length > command.maxArguments) {
      throw new CommandError("ERR Wrong number of args calling Redis command from script");
    }
    return command.run(keys, ...args.map(argumentText));
  }

  return {
    call: call as RedisCall,
    size: () => values.size,
    atomically(work) {
      frozenAt = clock();
      try {
        return work();
      } finally {
        purge();
        frozenAt = undefined;
      }
    },
  };
}

function argumentText(value: unknown): string {
  if (typeof value === "string") return value;
  // Redis would accept NaN and store "nan"; here it is an error, to find such defects early.
  if (typeof value === "number" && !Number.isNaN(value)) return numberText(value);
  throw new CommandError("ERR Lua redis lib command arguments must be strings or integers");
}
