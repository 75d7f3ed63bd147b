/**
 * Stores whose clock the test drives: the real scripts on a real Redis, or in the embedded store, but TIME answers what
 * the test says. Everything else, and the text of the scripts behind it, is what production runs.
 */
import { createHash } from "node:crypto";
import { catalog, type ScriptName } from "../../src/scripts/catalog.js";
import type { RedisApi, RedisCall, Script, ScriptReply } from "../../src/scripts/redis-api.js";
import { createEmbeddedStore } from "../../src/store/embedded/embedded-store.js";
import { createRedisStore } from "../../src/store/redis/redis-store.js";
import { loadScripts } from "../../src/store/script-files.js";
import type { Store } from "../../src/store/store.js";

/** Microseconds since 1970; tests move it as they like. */
export interface DrivenClock {
  now: number;
}

export interface RecordedCall {
  script: ScriptName;
  reply: ScriptReply;
}

export interface DrivenStore extends Store {
  clock: DrivenClock;
  /** Every reply so far, in order. */
  readonly calls: RecordedCall[];
}

/** A moment that is a whole second, so that examples are easy to read. */
export const START = 1_800_000_000_000_000;

/** The clock travels as the last argument; this takes it off again before the script begins. */
const LUA_CLOCK = `local redis = (function(real, now)
    return {
        call = function(command, ...)
            if command == "TIME" then
                return {string.sub(now, 1, -7), string.sub(now, -6)}
            end
            return real.call(command, ...)
        end
    }
end)(redis, table.remove(ARGV))
`;

type Sources = ReturnType<typeof loadScripts>;

/** The generated scripts, or scripts that a test broke on purpose, on a driven clock. */
export function drivenSources(sources: Sources = loadScripts()): Sources {
  const driven: Sources = new Map();
  for (const [name, script] of sources) {
    const firstLine = script.source.indexOf("\n") + 1;
    const source = script.source.slice(0, firstLine) + LUA_CLOCK + script.source.slice(firstLine);
    const sha1 = createHash("sha1").update(source).digest("hex");
    driven.set(name, { ...script, source, sha1, bytes: Buffer.byteLength(source) });
  }
  return driven;
}

function withDrivenTime(run: Script): Script {
  return (redis, keys, argv) => {
    const now = argv.at(-1) ?? "";
    const time = [now.slice(0, -6), now.slice(-6)];
    const call = (...words: unknown[]) =>
      words[0] === "TIME" ? time : (redis.call as (...words: unknown[]) => unknown)(...words);
    const api: RedisApi = { call: call as RedisCall };
    return run(api, keys, argv.slice(0, -1));
  };
}

function driven(store: Store, clock: DrivenClock): DrivenStore {
  const calls: RecordedCall[] = [];
  return {
    ...store,
    clock,
    calls,
    async run(script, keys, args, options) {
      const reply = await store.run(script, keys, [...args, String(clock.now)], options);
      calls.push({ script, reply });
      return reply;
    },
  };
}

type Runnable = Record<string, { run: Script }>;

export function drivenEmbeddedStore(clock: DrivenClock = { now: START }, scripts: Runnable = catalog): DrivenStore {
  const wrapped = Object.entries(scripts).map(([name, { run }]) => [name, { run: withDrivenTime(run) }] as const);
  return driven(createEmbeddedStore({ scripts: Object.fromEntries(wrapped) }), clock);
}

export function drivenRedisStore(url: string, clock: DrivenClock = { now: START }, sources?: Sources): DrivenStore {
  return driven(createRedisStore({ url, scripts: drivenSources(sources), deadlineMs: 10_000 }), clock);
}
