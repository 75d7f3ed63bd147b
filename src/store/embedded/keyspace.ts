/** Keys, their values and their expiry, all in memory, with the Redis commands that scripts may use. */
import type { RedisApi, RedisCall } from "../../scripts/redis-api.js";
import { hashCommands } from "./hash-commands.js";
import { CommandError, numberText } from "./numbers.js";
import type { SortedSet } from "./sorted-set.js";
import { sortedSetCommands } from "./sorted-set-commands.js";
import { stringCommands } from "./string-commands.js";

export type Value = { type: "string"; text: string } | { type: "hash"; fields: Map<string, string> } | SortedSetValue;
export type SortedSetValue = { type: "zset"; set: SortedSet };

/** What commands see of the keyspace: only keys that have not expired. */
export interface Keys {
  now(): number;
  get(key: string): Value | undefined;
  /** Sets a value and leaves its expiry as it was. */
  put(key: string, value: Value): void;
  delete(key: string): boolean;
  /** In milliseconds since 1970, or never. */
  expireAt(key: string, atMs: number | undefined): void;
}

/** A command takes its arguments as text and answers as Lua sees it. */
export type Command = (keys: Keys, args: string[]) => unknown;

export interface Keyspace extends RedisApi {
  /** Runs `work` with the time standing still, as a script sees it. */
  atomically<T>(work: () => T): T;
  /** How many keys are held, expired ones included. */
  size(): number;
}

const COMMANDS: ReadonlyMap<string, Command> = new Map([
  ...Object.entries(stringCommands),
  ...Object.entries(hashCommands),
  ...Object.entries(sortedSetCommands),
]);

/** Of the keys that can expire, so many are looked at after each piece of work, besides two for each new one. */
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

  /** Walks on through the keys that can expire, a few at a time and faster than they come, so that memory is bounded. */
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
    return command(keys, args.map(argumentText));
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
  // Redis would take NaN and keep "nan"; nothing good comes of it, so here it is found early.
  if (typeof value === "number" && !Number.isNaN(value)) return numberText(value);
  throw new CommandError("ERR Lua redis lib command arguments must be strings or integers");
}
