/** TIME, GET, SET, INCR, INCRBY, DEL, EXISTS, PEXPIRE, as Redis answers them to a script. */
import { argument, expectArguments, valueAt } from "./arguments.js";
import type { Command, Keys } from "./keyspace.js";
import { addWhole, CommandError, parseWhole } from "./numbers.js";

const INT64_MAX = 2n ** 63n - 1n;

export const stringCommands: Record<string, Command> = {
  TIME(keys, args) {
    expectArguments(args, 0, 0);
    const now = Math.floor(keys.now());
    return [String(Math.floor(now / 1_000_000)), String(now % 1_000_000)];
  },

  GET(keys, args) {
    expectArguments(args, 1, 1);
    return valueAt(keys, argument(args, 0), "string")?.text ?? false;
  },

  SET(keys, args) {
    expectArguments(args, 2, Number.POSITIVE_INFINITY);
    const key = argument(args, 0);
    if (args.length !== 2 && (args.length !== 4 || args[2] !== "PX")) throw new CommandError("ERR syntax error");
    const expiresAt = args.length === 4 ? expiryAfter(keys, "set", argument(args, 3)) : undefined;
    // Unlike PEXPIRE, SET refuses a time that is already over.
    if (expiresAt !== undefined && expiresAt <= nowMs(keys)) throw invalidExpiry("set");
    keys.put(key, { type: "string", text: argument(args, 1) });
    keys.expireAt(key, expiresAt);
    return { ok: "OK" };
  },

  INCR(keys, args) {
    expectArguments(args, 1, 1);
    return increase(keys, argument(args, 0), 1n);
  },

  INCRBY(keys, args) {
    expectArguments(args, 2, 2);
    return increase(keys, argument(args, 0), parseWhole(argument(args, 1)));
  },

  DEL(keys, args) {
    expectArguments(args, 1, 1);
    return keys.delete(argument(args, 0)) ? 1 : 0;
  },

  EXISTS(keys, args) {
    expectArguments(args, 1, 1);
    return keys.get(argument(args, 0)) === undefined ? 0 : 1;
  },

  PEXPIRE(keys, args) {
    expectArguments(args, 2, 2);
    const key = argument(args, 0);
    const expiresAt = expiryAfter(keys, "pexpire", argument(args, 1));
    if (keys.get(key) === undefined) return 0;
    if (expiresAt <= nowMs(keys)) keys.delete(key);
    else keys.expireAt(key, expiresAt);
    return 1;
  },
};

function increase(keys: Keys, key: string, by: bigint): number {
  const sum = addWhole(parseWhole(valueAt(keys, key, "string")?.text ?? "0"), by);
  keys.put(key, { type: "string", text: String(sum) });
  return Number(sum);
}

function expiryAfter(keys: Keys, command: string, milliseconds: string): number {
  const after = parseWhole(milliseconds);
  if (after > INT64_MAX - BigInt(nowMs(keys))) throw invalidExpiry(command);
  return nowMs(keys) + Number(after);
}

function invalidExpiry(command: string): CommandError {
  return new CommandError(`ERR invalid expire time in '${command}' command`);
}

function nowMs(keys: Keys): number {
  return Math.floor(keys.now() / 1000);
}
