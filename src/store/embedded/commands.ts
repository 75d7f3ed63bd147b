/** The Redis commands that scripts may use, with the replies that Redis gives to a script. */
import type { RedisApi, RedisCall } from "../../scripts/redis-api.js";
import { Fields } from "./fields.js";
import type { Keyspace, Value } from "./keyspace.js";
import { addWhole, CommandError, INT64_MAX, numberText, parseBound, parseScore, parseWhole } from "./numbers.js";
import { countBetween, createSortedSet, membersBetween, putMember, removeBetween, removeMember } from "./sorted-set.js";

interface Command {
  minArguments: number;
  maxArguments: number;
  /** Replies as a script in Redis sees it. */
  run(keys: Keyspace, ...args: string[]): unknown;
}

const MANY = Number.POSITIVE_INFINITY;

const COMMANDS: ReadonlyMap<string, Command> = new Map([
  command("TIME", 0, 0, (keys) => {
    const now = Math.floor(keys.now());
    return [String(Math.floor(now / 1_000_000)), String(now % 1_000_000)];
  }),
  command("GET", 1, 1, (keys, key) => valueAt(keys, key, "string")?.text ?? false),
  command("SET", 2, MANY, (keys, key, text, ...[option, milliseconds, ...more]) => {
    const isPlain = option === undefined;
    if (!isPlain && (option !== "PX" || milliseconds === undefined || more.length > 0)) throw syntaxError();
    const expiresAt = isPlain ? undefined : expiryAfter(keys, "set", milliseconds!);
    // Unlike PEXPIRE, SET rejects a time in the past.
    if (expiresAt !== undefined && expiresAt <= nowMs(keys)) throw invalidExpiry("set");
    keys.put(key, { type: "string", text });
    keys.expireAt(key, expiresAt);
    return { ok: "OK" };
  }),
  command("INCR", 1, 1, (keys, key) => increase(keys, key, 1n)),
  command("INCRBY", 2, 2, (keys, key, by) => increase(keys, key, parseWhole(by))),
  command("DEL", 1, 1, (keys, key) => (keys.delete(key) ? 1 : 0)),
  command("EXISTS", 1, 1, (keys, key) => (keys.get(key) === undefined ? 0 : 1)),
  command("PEXPIRE", 2, 2, (keys, key, milliseconds) => {
    const expiresAt = expiryAfter(keys, "pexpire", milliseconds);
    if (keys.get(key) === undefined) return 0;
    if (expiresAt <= nowMs(keys)) keys.delete(key);
    else keys.expireAt(key, expiresAt);
    return 1;
  }),

  command("HGET", 2, 2, (keys, key, field) => fieldsOf(keys, key)?.get(field) ?? false),
  command("HMGET", 2, MANY, (keys, key, ...names) => {
    const fields = fieldsOf(keys, key);
    return names.map((name) => fields?.get(name) ?? false);
  }),
  command("HGETALL", 1, 1, (keys, key) => fieldsOf(keys, key)?.list() ?? []),
  command("HSET", 3, MANY, (keys, key, ...pairs) => {
    if (pairs.length % 2 === 1) throw new CommandError("ERR wrong number of arguments for 'hset' command");
    const fields = fieldsOf(keys, key) ?? new Fields();
    const before = fields.size;
    for (let i = 0; i < pairs.length; i += 2) fields.set(pairs[i]!, pairs[i + 1]!);
    keys.put(key, { type: "hash", fields });
    return fields.size - before;
  }),
  command("HDEL", 2, MANY, (keys, key, ...names) => {
    const fields = fieldsOf(keys, key);
    const removed = names.filter((name) => fields?.delete(name)).length;
    if (fields?.size === 0) keys.delete(key);
    return removed;
  }),

  command("ZADD", 3, 4, (keys, key, ...rest) => {
    const [condition, scoreText, member] = (rest.length === 3 ? rest : ["", ...rest]) as [string, string, string];
    if (condition !== "" && condition !== "XX" && condition !== "NX") throw syntaxError();
    const score = parseScore(scoreText);
    const existing = setOf(keys, key);
    const before = existing?.scores.get(member);
    if (condition === (before === undefined ? "XX" : "NX")) return 0;
    const set = existing ?? createSortedSet();
    if (existing === undefined) keys.put(key, { type: "zset", set });
    // As in Redis, an equal score keeps its sign of zero.
    if (before !== score) putMember(set, member, score);
    return before === undefined ? 1 : 0;
  }),
  command("ZREM", 2, 2, (keys, key, member) => {
    const set = setOf(keys, key);
    if (set === undefined || !removeMember(set, member)) return 0;
    if (set.scores.size === 0) keys.delete(key);
    return 1;
  }),
  command("ZCARD", 1, 1, (keys, key) => setOf(keys, key)?.scores.size ?? 0),
  command("ZSCORE", 2, 2, (keys, key, member) => {
    const score = setOf(keys, key)?.scores.get(member);
    return score === undefined ? false : numberText(score);
  }),
  command("ZCOUNT", 3, 3, (keys, key, min, max) => {
    const [from, to] = [parseBound(min), parseBound(max)];
    const set = setOf(keys, key);
    return set === undefined ? 0 : countBetween(set, from, to);
  }),
  command("ZREMRANGEBYSCORE", 3, 3, (keys, key, min, max) => {
    const [from, to] = [parseBound(min), parseBound(max)];
    const set = setOf(keys, key);
    if (set === undefined) return 0;
    const removed = removeBetween(set, from, to);
    if (set.scores.size === 0) keys.delete(key);
    return removed;
  }),
  command("ZRANGE", 3, 4, (keys, key, start, ...[stop, option]) => {
    if (option !== undefined && option !== "WITHSCORES") throw syntaxError();
    const [first, last] = [parseWhole(start), parseWhole(stop!)];
    const set = setOf(keys, key);
    if (set === undefined) return [];
    // -1 is the last member, -2 the one before it.
    const size = set.scores.size;
    const rank = (index: bigint) => (index < 0n ? Number(index) + size : Number(index));
    const chosen = membersBetween(set, Math.max(0, rank(first)), rank(last) + 1);
    return chosen.flatMap(({ member, score }) => (option === undefined ? [member] : [member, numberText(score)]));
  }),
]);

/** Redis as a script sees it. `publish` delivers a message after the script has ended. */
export function redisApi(keys: Keyspace, publish: (channel: string, message: string) => void): RedisApi {
  function call(name: string, ...args: unknown[]): unknown {
    const command = COMMANDS.get(name);
    if (command === undefined) throw new CommandError(`ERR Unknown Redis command called from script: ${name}`);
    if (args.length < command.minArguments || args.length > command.maxArguments) {
      throw new CommandError("ERR Wrong number of args calling Redis command from script");
    }
    return command.run(keys, ...args.map(argumentText));
  }
  return { call: call as RedisCall, pcall: (_, channel, message) => publish(channel, message) };
}

function argumentText(value: unknown): string {
  if (typeof value === "string") return value;
  // Redis would accept NaN and store "nan"; here it is an error, to find such defects early.
  if (typeof value === "number" && !Number.isNaN(value)) return numberText(value);
  throw new CommandError("ERR Lua redis lib command arguments must be strings or integers");
}

/** `run` may declare the first `min` arguments as given. */
function command(name: string, min: number, max: number, run: Command["run"]): [string, Command] {
  return [name, { minArguments: min, maxArguments: max, run }];
}

/** The value of `key`, which must have this type if it exists. */
function valueAt<T extends Value["type"]>(keys: Keyspace, key: string, type: T) {
  const value = keys.get(key);
  if (value === undefined || value.type === type) return value as Extract<Value, { type: T }> | undefined;
  throw new CommandError("WRONGTYPE Operation against a key holding the wrong kind of value");
}

const fieldsOf = (keys: Keyspace, key: string) => valueAt(keys, key, "hash")?.fields;
const setOf = (keys: Keyspace, key: string) => valueAt(keys, key, "zset")?.set;

function increase(keys: Keyspace, key: string, by: bigint): number {
  const sum = addWhole(parseWhole(valueAt(keys, key, "string")?.text ?? "0"), by);
  keys.put(key, { type: "string", text: String(sum) });
  return Number(sum);
}

function expiryAfter(keys: Keyspace, name: string, milliseconds: string): number {
  const after = parseWhole(milliseconds);
  if (after > INT64_MAX - BigInt(nowMs(keys))) throw invalidExpiry(name);
  return nowMs(keys) + Number(after);
}

const nowMs = (keys: Keyspace) => Math.floor(keys.now() / 1000);
const syntaxError = () => new CommandError("ERR syntax error");
const invalidExpiry = (name: string) => new CommandError(`ERR invalid expire time in '${name}' command`);
