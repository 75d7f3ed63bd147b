/** Small hand-written scripts for tests of the store itself, in the place of the catalog. */
import { createHash } from "node:crypto";
import type { RedisValue, ScriptReply } from "../../src/scripts/redis-api.js";
import { createRedisStore, type RedisStoreOptions } from "../../src/store/redis/redis-store.js";
import type { RunOptions, Store } from "../../src/store/store.js";

const sources = {
  /** Counts each operation once: KEYS[1] the counter, KEYS[2] the answers; ARGV[1] the id. Replies count, repeated. */
  count: `#!lua
    local answer = redis.call('HGET', KEYS[2], ARGV[1])
    if answer then return { tonumber(answer), 1 } end
    local count = redis.call('INCR', KEYS[1])
    redis.call('HSET', KEYS[2], ARGV[1], count)
    return { count, 0 }`,
  /** Adds without remembering: every time it runs, it shows. */
  add: `#!lua
    return { redis.call('INCR', KEYS[1]) }`,
  put: `#!lua
    redis.call('SET', KEYS[1], ARGV[1])
    return { 1 }`,
  free: `#!lua flags=allow-oom
    return { redis.call('DEL', KEYS[1]) }`,
  echo: `#!lua flags=no-writes
    return { 7, ARGV[1] }`,
  fail: `#!lua
    return redis.error_reply('ERR broken on purpose')`,
  wrongType: `#!lua
    redis.call('SET', KEYS[1], 'text')
    return { redis.call('ZCARD', KEYS[1]) }`,
  nothing: `#!lua
    return { 1, false }`,
};

export type TestScript = keyof typeof sources;

export const testScripts = new Map(
  Object.entries(sources).map(([name, source]) => [
    name,
    { source, sha1: createHash("sha1").update(source).digest("hex"), flags: "", bytes: source.length },
  ]),
);

export interface TestStore extends Omit<Store, "run"> {
  run(script: TestScript, keys: string[], args: RedisValue[], options?: RunOptions): Promise<ScriptReply>;
}

export function openTestStore(options: RedisStoreOptions): TestStore {
  return createRedisStore({ ...options, scripts: testScripts }) as unknown as TestStore;
}
