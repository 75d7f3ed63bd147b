/**
 * Stores whose clock the test drives: the real scripts on a real Redis or in the embedded store. Only the reply to TIME
 * is replaced; the rest of the script text is what production runs.
 */
import { catalog, type ScriptName } from "../../src/scripts/catalog.js";
import type { RedisApi, RedisCall, Script, ScriptReply } from "../../src/scripts/redis-api.js";
import { createEmbeddedStore } from "../../src/store/embedded/embedded-store.js";
import { type FunctionLibrary, loadLibrary } from "../../src/store/function-library.js";
import { createRedisStore } from "../../src/store/redis/redis-store.js";
import type { Store } from "../../src/store/store.js";
import { withDrivenClock } from "./libraries.js";

/** Microseconds since 1970, set by the test. */
export interface DrivenClock {
  now: number;
}

export interface RecordedCall {
  script: ScriptName;
  /** Undefined: the call failed. */
  reply: ScriptReply | undefined;
}

export interface DrivenStore extends Store {
  clock: DrivenClock;
  /** Every reply so far, in the order of the calls. */
  readonly calls: RecordedCall[];
}

/** A whole second, so that examples are easy to read. */
export const START = 1_800_000_000_000_000;

function withDrivenTime(run: Script): Script {
  return (redis, keys, argv) => {
    const now = argv.at(-1) ?? "";
    const time = [now.slice(0, -6), now.slice(-6)];
    const call = (...words: unknown[]) =>
      words[0] === "TIME" ? time : (redis.call as (...words: unknown[]) => unknown)(...words);
    const api: RedisApi = { ...redis, call: call as RedisCall };
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
      const call: RecordedCall = { script, reply: undefined };
      calls.push(call);
      const reply = await store.run(script, keys, [...args, String(clock.now)], options);
      call.reply = reply;
      return reply;
    },
  };
}

type Runnable = Record<string, { run: Script }>;

export function drivenEmbeddedStore(clock: DrivenClock = { now: START }, scripts: Runnable = catalog): DrivenStore {
  const wrapped = Object.entries(scripts).map(([name, { run }]) => [name, { run: withDrivenTime(run) }] as const);
  return driven(createEmbeddedStore({ scripts: Object.fromEntries(wrapped) }), clock);
}

/** @param library the built one, or one that a test broke on purpose */
export function drivenRedisStore(
  url: string,
  clock: DrivenClock = { now: START },
  library: FunctionLibrary = loadLibrary(),
): DrivenStore {
  return driven(createRedisStore({ url, library: withDrivenClock(library), deadlineMs: 10_000 }), clock);
}
