/** The embedded keyspace replies to any sequence of commands like a real Redis, as seen from Lua. */
import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { redisApi } from "../../../src/store/embedded/commands.js";
import { createKeyspace } from "../../../src/store/embedded/keyspace.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";

type Argument = string | number;
type Command = [name: string, ...args: Argument[]];

/** Runs one command in a script and encodes the reply as texts, so that types survive the conversion. */
const PROBE = `
  local args = {}
  for i, arg in ipairs(ARGV) do
    if string.sub(arg, 1, 1) == 'n' then args[i] = tonumber(string.sub(arg, 2)) else args[i] = string.sub(arg, 2) end
  end
  local spelled = {}
  local function spell(value)
    if value == false then table.insert(spelled, 'false')
    elseif type(value) == 'number' then table.insert(spelled, 'n' .. string.format('%.0f', value))
    elseif type(value) == 'string' then table.insert(spelled, 's' .. value)
    elseif value.ok then table.insert(spelled, 'ok ' .. value.ok)
    elseif value.err then table.insert(spelled, 'error ' .. value.err)
    else
      table.insert(spelled, 'list')
      for _, item in ipairs(value) do spell(item) end
    end
  end
  spell(redis.pcall(unpack(args)))
  return spelled`;

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

function throughRedis([name, ...args]: Command): Promise<unknown> {
  const spelled = args.map((arg) => (typeof arg === "number" ? `n${arg}` : `s${arg}`));
  return redis.command("EVAL", PROBE, 0, `s${name}`, ...spelled);
}

function throughKeyspace(call: (...args: Argument[]) => unknown, command: Command): string[] {
  try {
    return spell(call(...command));
  } catch (error) {
    return [`error ${(error as Error).message}`];
  }
}

function spell(value: unknown): string[] {
  if (value === false) return ["false"];
  if (typeof value === "number") return [`n${value.toFixed(0)}`];
  if (typeof value === "string") return [`s${value}`];
  if (Array.isArray(value)) return ["list", ...value.flatMap(spell)];
  return [`ok ${(value as { ok: string }).ok}`];
}

/** Redis 7.0 formats 0.1 as 0.10000000000000001. Both are the same number. */
function sameFractions(spelled: string[]): string[] {
  return spelled.map((item) => (/^s-?[0-9.]*\.[0-9]+$/.test(item) ? `s${Number(item.slice(1))}` : item));
}

/** Mostly keys of the type that the command needs; otherwise most replies would be WRONGTYPE. */
const keyOf = (type: string) =>
  fc.oneof(
    { weight: 12, arbitrary: fc.constant(type) },
    { weight: 1, arbitrary: fc.constantFrom("string", "hash", "zset") },
  );
const string = keyOf("string");
const hash = keyOf("hash");
const zset = keyOf("zset");
const field = fc.constantFrom("f", "", "é", "\u{1f600}", "\uffee", "10", "9");
const score = fc.oneof(
  fc.integer({ min: -5, max: 5 }),
  fc.constantFrom(0.5, -2.25, 0.1, 1e10, 2 ** 53 - 1, 1_700_000_000_123_456),
  fc.constantFrom("3", "-1", "+2", "1e2", ".5", "5.", "inf", "+inf", "-inf", "Infinity", "x", "", " 1", "1 ", "nan"),
);
/** Redis accepts a leading blank and an empty text as a bound. The keyspace is stricter on purpose. */
const plainBound = score.filter((one) => one !== "" && one !== " 1");
const bound = fc.oneof(
  plainBound,
  plainBound.map((inner) => `(${inner}`),
);
const index = fc.oneof(fc.integer({ min: -4, max: 4 }), fc.constantFrom("0", "-1", "x", "1.5", "+1", "01", ""));
const text = fc.oneof(
  fc.constantFrom("", "5", "-7", "007", "+1", "9223372036854775807", "1e3"),
  fc.string({ maxLength: 5 }),
);
const whole = fc.oneof(
  fc.integer({ min: -1_000_000, max: 1_000_000 }),
  fc.constantFrom("5", "-5", "x", "1.5", "9223372036854775807", "-9223372036854775808", "9223372036854775808", ""),
);
const value = fc.oneof(text, fc.integer(), fc.constantFrom(0.1, 1.5, 2 ** 53 - 1, -(2 ** 53) + 1));
/** Far in the future or already past. The exact millisecond is tested with a driven clock. */
const expiry = fc.constantFrom(100_000, 9_000_000_000, 0, -1, -100_000, "x", "9223372036854775807", "1.5");

const command: fc.Arbitrary<Command> = fc.oneof(
  fc.tuple(fc.constantFrom("GET", "INCR"), string),
  fc.tuple(fc.constantFrom("DEL", "EXISTS"), fc.oneof(string, hash, zset)),
  fc.tuple(fc.constant("SET"), string, value),
  fc.tuple(fc.constant("SET"), string, value, fc.constantFrom("PX", "PY"), expiry),
  fc.tuple(fc.constant("INCRBY"), string, whole),
  fc.tuple(fc.constant("PEXPIRE"), fc.oneof(string, hash, zset), expiry),
  fc.tuple(fc.constant("HGET"), hash, field),
  fc.tuple(fc.constant("HMGET"), hash, field, field, field),
  fc.tuple(fc.constant("HGETALL"), hash),
  fc.tuple(fc.constant("HSET"), hash, field, value),
  fc.tuple(fc.constant("HSET"), hash, field, value, field, value),
  fc.tuple(fc.constant("HSET"), hash, field, value, field),
  fc.tuple(fc.constant("HDEL"), hash, field),
  fc.tuple(fc.constant("HDEL"), hash, field, field),
  fc.tuple(fc.constant("ZCARD"), zset),
  fc.tuple(fc.constant("ZADD"), zset, score, field),
  fc.tuple(fc.constant("ZADD"), zset, fc.constantFrom("XX", "NX"), score, field),
  fc.tuple(fc.constantFrom("ZREM", "ZSCORE"), zset, field),
  fc.tuple(fc.constantFrom("ZCOUNT", "ZREMRANGEBYSCORE"), zset, bound, bound),
  fc.tuple(fc.constant("ZRANGE"), zset, index, index),
  fc.tuple(fc.constant("ZRANGE"), zset, index, index, fc.constantFrom("WITHSCORES", "WITHOUT")),
  fc.tuple(fc.constantFrom("GET", "SET", "INCRBY", "PEXPIRE", "HGET", "HSET", "ZADD", "ZRANGE", "ZCOUNT")),
);

/** Reads all keys, so that a wrong write is detected even if its reply was right. */
const READ_ALL: Command[] = ["string", "hash", "zset"].flatMap((key): Command[] => [
  ["GET", key],
  ["HGETALL", key],
  ["ZRANGE", key, 0, -1, "WITHSCORES"],
]);

it("replies to every sequence of commands as Redis does", async () => {
  const histories = fc.array(command, { minLength: 1, maxLength: 80, size: "max" });
  await fc.assert(
    fc.asyncProperty(histories, async (history) => {
      const commands = [...history, ...READ_ALL];
      const { call: typed } = redisApi(
        createKeyspace(() => Date.now() * 1000),
        () => {},
      );
      const call = typed as unknown as (...args: Argument[]) => unknown;
      const embedded = commands.map((one) => throughKeyspace(call, one));
      await redis.command("FLUSHALL");
      const real = (await Promise.all(commands.map(throughRedis))) as string[][];
      expect(embedded.map(sameFractions)).toEqual(real.map(sameFractions));
    }),
    { numRuns: 500 },
  );
});
