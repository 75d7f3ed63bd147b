/** HGET, HMGET, HGETALL, HSET, HDEL, as Redis answers them to a script. */
import { argument, expectArguments, valueAt } from "./arguments.js";
import type { Command } from "./keyspace.js";
import { CommandError } from "./numbers.js";

const MANY = Number.POSITIVE_INFINITY;

export const hashCommands: Record<string, Command> = {
  HGET(keys, args) {
    expectArguments(args, 2, 2);
    return valueAt(keys, argument(args, 0), "hash")?.fields.get(argument(args, 1)) ?? false;
  },

  HMGET(keys, args) {
    expectArguments(args, 2, MANY);
    const hash = valueAt(keys, argument(args, 0), "hash");
    return args.slice(1).map((field) => hash?.fields.get(field) ?? false);
  },

  HGETALL(keys, args) {
    expectArguments(args, 1, 1);
    return [...(valueAt(keys, argument(args, 0), "hash")?.fields ?? [])].flat();
  },

  HSET(keys, args) {
    expectArguments(args, 3, MANY);
    if (args.length % 2 === 0) throw new CommandError("ERR wrong number of arguments for 'hset' command");
    const key = argument(args, 0);
    const fields = valueAt(keys, key, "hash")?.fields ?? new Map<string, string>();
    const before = fields.size;
    for (let i = 1; i < args.length; i += 2) fields.set(argument(args, i), argument(args, i + 1));
    keys.put(key, { type: "hash", fields });
    return fields.size - before;
  },

  HDEL(keys, args) {
    expectArguments(args, 2, MANY);
    const key = argument(args, 0);
    const fields = valueAt(keys, key, "hash")?.fields;
    if (fields === undefined) return 0;
    let removed = 0;
    for (const field of args.slice(1)) removed += fields.delete(field) ? 1 : 0;
    if (fields.size === 0) keys.delete(key);
    return removed;
  },
};
