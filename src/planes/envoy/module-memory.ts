/** The memory of the module as the shared memory of the Lua plane. */
import type { Several, SharedMemory } from "../lua/proxy.js";
import { lib, resultText, state } from "./module-api.js";

/** Several results of one function; TypeScriptToLua recognises it by its type. */
declare const $multi: (<T extends unknown[]>(...values: T) => Several<T>) & {
  readonly __tstlExtension: "MultiFunction";
};

/** Results of `tollgate_get`. */
const NUMBER = 1;
const TEXT = 2;
/** Results of the functions that store. */
const STORED = 1;
const EXISTS = 2;

export const moduleMemory: SharedMemory = {
  get(key) {
    const kind = lib.tollgate_get(state, key, key.length);
    if (kind === NUMBER) return state.number;
    return kind === TEXT ? resultText() : undefined;
  },
  incr(key: string, by: number, initial?: number) {
    return lib.tollgate_add(state, key, key.length, by, initial ?? NaN) === 1 ? state.number : undefined;
  },
  safe_set(key, value, secondsToLive) {
    if (store(key, value, secondsToLive ?? 0, false) === STORED) return $multi(true, undefined);
    return $multi(undefined, "no memory");
  },
  safe_add(key, value, secondsToLive) {
    const result = store(key, value, secondsToLive ?? 0, true);
    if (result === STORED) return $multi(true, undefined);
    return $multi(undefined, result === EXISTS ? "exists" : "no memory");
  },
  delete(key) {
    lib.tollgate_delete(state, key, key.length);
  },
  expire(key, secondsToLive) {
    lib.tollgate_expire(state, key, key.length, secondsToLive);
  },
  lpush(key, value) {
    const text = value as string;
    const length = lib.tollgate_push(state, key, key.length, text, text.length);
    return length > 0 ? length : undefined;
  },
  rpop(key) {
    return lib.tollgate_pop(state, key, key.length) === 1 ? resultText() : undefined;
  },
  llen(key) {
    return lib.tollgate_length(state, key, key.length);
  },
  free_space() {
    return lib.tollgate_free(state);
  },
  capacity() {
    return lib.tollgate_capacity();
  },
};

/** A boolean is stored as a number. */
function store(key: string, value: number | string | boolean, seconds: number, onlyNew: boolean): number {
  if (typeof value === "string") {
    return lib.tollgate_set_text(state, key, key.length, value, value.length, seconds, onlyNew);
  }
  const number = typeof value === "number" ? value : value ? 1 : 0;
  return lib.tollgate_set_number(state, key, key.length, number, seconds, onlyNew);
}
