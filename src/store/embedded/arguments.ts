/** What every command checks first: how many arguments it has and what kind of value its key holds. */
import type { Keys, Value } from "./keyspace.js";
import { CommandError } from "./numbers.js";

export function expectArguments(args: string[], least: number, most: number): void {
  if (args.length < least || args.length > most) {
    throw new CommandError("ERR Wrong number of args calling Redis command from script");
  }
}

/** The argument at `index`, after `expectArguments` made sure that there is one. */
export function argument(args: string[], index: number): string {
  return args[index] as string;
}

/** The value of `key` if there is one; an error if it is of another type. */
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
