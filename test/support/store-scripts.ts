/** A small hand-written function library for tests of the store itself. */
import type { RedisValue, ScriptReply } from "../../src/scripts/redis-api.js";
import type { FunctionLibrary } from "../../src/store/function-library.js";
import { functionName } from "../../src/store/function-names.js";
import { createRedisStore, type RedisStoreOptions } from "../../src/store/redis/redis-store.js";
import type { RunOptions, Store } from "../../src/store/store.js";

const functions = {
  /** Counts each operation once: keys[1] the counter, keys[2] the replies; args[1] the id. Replies count, repeated. */
  count: {
    flags: "",
    body: `
    local reply = redis.call('HGET', keys[2], args[1])
    if reply then return { tonumber(reply), 1 } end
    local count = redis.call('INCR', keys[1])
    redis.call('HSET', keys[2], args[1], count)
    return { count, 0 }`,
  },
  /** Adds without remembering: every time it runs, it shows. */
  add: { flags: "", body: "return { redis.call('INCR', keys[1]) }" },
  put: { flags: "", body: "redis.call('SET', keys[1], args[1]) return { 1 }" },
  free: { flags: "allow-oom", body: "return { redis.call('DEL', keys[1]) }" },
  echo: { flags: "no-writes", body: "return { 7, args[1] }" },
  fail: { flags: "", body: "return redis.error_reply('ERR broken on purpose')" },
  wrongType: { flags: "", body: "redis.call('SET', keys[1], 'text') return { redis.call('ZCARD', keys[1]) }" },
  nothing: { flags: "", body: "return { 1, false }" },
  /** The store calls it to find out whether the library is loaded. */
  inspect: { flags: "no-writes", body: "return { 1 }" },
};

export type TestFunction = keyof typeof functions;

const name = "tollgate_test";

const testLibrary: FunctionLibrary = {
  name,
  source: `#!lua name=${name}\n${Object.entries(functions)
    .map(
      ([own, { flags, body }]) => `redis.register_function{
  function_name = '${functionName(name, own as "inspect")}',
  flags = {${flags === "" ? "" : `'${flags}'`}},
  callback = function(keys, args) ${body} end
}`,
    )
    .join("\n")}\n`,
};

export interface TestStore extends Omit<Store, "run"> {
  run(script: TestFunction, keys: string[], args: RedisValue[], options?: RunOptions): Promise<ScriptReply>;
}

export function openTestStore(options: RedisStoreOptions): TestStore {
  return createRedisStore({ ...options, library: testLibrary }) as unknown as TestStore;
}
