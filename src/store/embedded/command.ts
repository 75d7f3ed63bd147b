/** The types of the in-memory keyspace, as its commands see it. */
import type { SortedSet } from "./sorted-set.js";

export type Value =
  | { type: "string"; text: string }
  | { type: "hash"; fields: Map<string, string> }
  | { type: "zset"; set: SortedSet };

/** The keys that have not expired. */
export interface Keys {
  now(): number;
  get(key: string): Value | undefined;
  /** Sets a value and keeps its expiry. */
  put(key: string, value: Value): void;
  delete(key: string): boolean;
  /** In milliseconds since 1970; undefined: never. */
  expireAt(key: string, atMs: number | undefined): void;
}

export interface Command {
  minArguments: number;
  maxArguments: number;
  /** Replies as a script in Redis sees it. */
  run(keys: Keys, ...args: string[]): unknown;
}

/** An error reply; the message is that of Redis. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

/** The value of `key`, which must have this type if it exists. */
export function valueAt<T extends Value["type"]>(
  keys: Keys,
  key: string,
  type: T,
): Extract<Value, { type: T }> | undefined {
  const value = keys.get(key);
  if (value === undefined) return undefined;
  if (value.type !== type) throw new CommandError("WRONGTYPE Operation against a key holding the wrong kind of value");
  return value as Extract<Value, { type: T }>;
}
