/** The functions of the module (`module/*.c`) that Lua calls, with types. All belong to the Lua state that calls them. */
import { splitText } from "../../core/platform.js";
import { luaString } from "../lua/library.js";
import type { Several } from "../lua/proxy.js";

interface CharPointer {
  readonly __chars: never;
}

interface Cell {
  readonly __cell: never;
}

/** `struct context`: the result of the last call. */
interface State {
  readonly data: CharPointer;
  readonly size: number;
  readonly number: number;
}

/** Sizes follow the texts that they belong to. */
interface Library {
  // Shared memory: memory.c.
  tollgate_get(this: void, state: State, key: string, size: number): number;
  tollgate_set_text(
    this: void,
    state: State,
    key: string,
    size: number,
    text: string,
    length: number,
    seconds: number,
    onlyNew: boolean,
  ): number;
  tollgate_set_number(
    this: void,
    state: State,
    key: string,
    size: number,
    value: number,
    seconds: number,
    onlyNew: boolean,
  ): number;
  tollgate_add(this: void, state: State, key: string, size: number, delta: number, initial: number): number;
  tollgate_delete(this: void, state: State, key: string, size: number): void;
  tollgate_expire(this: void, state: State, key: string, size: number, seconds: number): void;
  tollgate_push(this: void, state: State, key: string, size: number, text: string, length: number): number;
  tollgate_pop(this: void, state: State, key: string, size: number): number;
  tollgate_length(this: void, state: State, key: string, size: number): number;
  tollgate_free(this: void, state: State): number;
  tollgate_capacity(this: void): number;
  tollgate_cell(this: void, state: State, key: string, size: number): Cell;
  tollgate_cell_get(this: void, cell: Cell): number;
  tollgate_cell_add(this: void, cell: Cell, delta: number): number;
  tollgate_cell_take(this: void, cell: Cell, cost: number): number;

  // The current request: request.c.
  tollgate_header(this: void, state: State, map: number, name: string, size: number, index: number): number;
  tollgate_set_header(
    this: void,
    state: State,
    map: number,
    name: string,
    size: number,
    value: string,
    length: number,
  ): void;
  tollgate_remove_header(this: void, state: State, map: number, name: string, size: number): void;
  tollgate_attribute(this: void, state: State, attribute: number): number;
  tollgate_route_text(this: void, state: State, key: string, size: number): number;
  tollgate_choose_host(this: void, state: State, host: string, size: number): number;
  /** The response begins a WebSocket: frames.c. */
  tollgate_websocket(this: void, state: State): void;
  tollgate_meter(this: void, state: State, ways: number, known: number): void;
  tollgate_metered(this: void, state: State): number;
  tollgate_due_at(this: void, state: State, bytes: number): void;
  tollgate_most_request_bytes(this: void, state: State, bytes: number): void;
  tollgate_log(this: void, level: number, text: string, size: number): void;
  tollgate_reply(this: void, state: State): void;
  tollgate_reply_header(this: void, state: State, name: string, size: number, value: string, length: number): void;
  tollgate_reply_body(this: void, state: State, status: number, body: string, size: number): void;
  tollgate_error_reply(this: void, state: State, status: number, body: string, size: number): void;

  // Whether a pod can be reached: dial.c.
  tollgate_dial(this: void, state: State, address: string, size: number): number;
  tollgate_dialed(this: void, state: State, dialed: number): number;
  tollgate_hang_up(this: void, state: State, dialed: number): void;

  // Messages between workers and the main thread: node.c and waiters.c.
  tollgate_tell(this: void, state: State, text: string, size: number): number;
  tollgate_message(this: void, state: State): number;
  tollgate_wait(this: void, state: State, milliseconds: number): number;
  tollgate_answer(this: void, state: State, waiter: number, text: string, size: number): number;
  tollgate_answered(this: void, state: State): number;
  tollgate_keep(this: void, state: State): number;
  tollgate_kept(this: void, state: State): number;
  tollgate_close(this: void, state: State, stream: number, code: number): void;
  tollgate_alarm(this: void, state: State, milliseconds: number): void;
  tollgate_tick_workers(this: void, state: State): void;
  tollgate_left(this: void, state: State): void;
  tollgate_call(
    this: void,
    state: State,
    cluster: string,
    clusterSize: number,
    path: string,
    pathSize: number,
    body: string,
    bodySize: number,
    timeoutMs: number,
  ): number;
}

interface Ffi {
  cdef(this: void, declarations: string): void;
  load(this: void, path: string): Library;
  cast(this: void, type: "struct tollgate_state *", pointer: unknown): State;
  string(this: void, data: CharPointer, size: number): string;
}

/** A coroutine. */
export interface Thread {
  readonly __thread: never;
}

declare const _G: {
  readonly tollgate_library: string;
  readonly tollgate_state: unknown;
  readonly coroutine: {
    create(this: void, work: (this: void) => void): Thread;
    resume(this: void, thread: Thread): Several<[boolean, string | undefined]>;
    yield(this: void): void;
    running(this: void): Thread;
  };
};
declare function error(this: void, message: string): never;
declare function require(this: void, module: "ffi"): Ffi;

const DECLARATIONS = `
struct tollgate_state { const char *data; int size; double number; };
int tollgate_get(struct tollgate_state *, const char *, size_t);
int tollgate_set_text(struct tollgate_state *, const char *, size_t, const char *, size_t, double, int);
int tollgate_set_number(struct tollgate_state *, const char *, size_t, double, double, int);
int tollgate_add(struct tollgate_state *, const char *, size_t, double, double);
void tollgate_delete(struct tollgate_state *, const char *, size_t);
void tollgate_expire(struct tollgate_state *, const char *, size_t, double);
double tollgate_push(struct tollgate_state *, const char *, size_t, const char *, size_t);
int tollgate_pop(struct tollgate_state *, const char *, size_t);
double tollgate_length(struct tollgate_state *, const char *, size_t);
double tollgate_free(struct tollgate_state *);
double tollgate_capacity(void);
void *tollgate_cell(struct tollgate_state *, const char *, size_t);
double tollgate_cell_get(void *);
double tollgate_cell_add(void *, double);
double tollgate_cell_take(void *, double);
int tollgate_header(struct tollgate_state *, int, const char *, size_t, int);
void tollgate_set_header(struct tollgate_state *, int, const char *, size_t, const char *, size_t);
void tollgate_remove_header(struct tollgate_state *, int, const char *, size_t);
int tollgate_attribute(struct tollgate_state *, int);
int tollgate_route_text(struct tollgate_state *, const char *, size_t);
int tollgate_choose_host(struct tollgate_state *, const char *, size_t);
void tollgate_websocket(struct tollgate_state *);
void tollgate_meter(struct tollgate_state *, int, double);
double tollgate_metered(struct tollgate_state *);
void tollgate_due_at(struct tollgate_state *, double);
void tollgate_most_request_bytes(struct tollgate_state *, double);
void tollgate_log(int, const char *, size_t);
void tollgate_reply(struct tollgate_state *);
void tollgate_reply_header(struct tollgate_state *, const char *, size_t, const char *, size_t);
void tollgate_reply_body(struct tollgate_state *, int, const char *, size_t);
void tollgate_error_reply(struct tollgate_state *, int, const char *, size_t);
int tollgate_dial(struct tollgate_state *, const char *, size_t);
int tollgate_dialed(struct tollgate_state *, int);
void tollgate_hang_up(struct tollgate_state *, int);
int tollgate_tell(struct tollgate_state *, const char *, size_t);
int tollgate_message(struct tollgate_state *);
double tollgate_wait(struct tollgate_state *, double);
int tollgate_answer(struct tollgate_state *, double, const char *, size_t);
int tollgate_answered(struct tollgate_state *);
double tollgate_keep(struct tollgate_state *);
double tollgate_kept(struct tollgate_state *);
void tollgate_close(struct tollgate_state *, double, int);
void tollgate_alarm(struct tollgate_state *, double);
void tollgate_tick_workers(struct tollgate_state *);
void tollgate_left(struct tollgate_state *);
double tollgate_call(struct tollgate_state *, const char *, size_t, const char *, size_t, const char *, size_t, double);
`;

const ffi = require("ffi");
ffi.cdef(DECLARATIONS);
export const lib = ffi.load(_G.tollgate_library);
requireFunctions(lib as unknown as { [name: string]: unknown });

/** A library of another version has other functions: then the script does not load, instead of failing for requests. */
function requireFunctions(functions: { [name: string]: unknown }): void {
  for (const line of splitText(DECLARATIONS, "\n")) {
    const name = luaString.match(line, "(tollgate_[%w_]+)%(");
    // A function that the library does not have cannot be read: that is an error.
    if (name !== undefined && functions[name] === undefined) error(name);
  }
}
export const state = ffi.cast("struct tollgate_state *", _G.tollgate_state);
export const coroutine = _G.coroutine;

/** The text that the last call has returned. */
export function resultText(): string {
  return ffi.string(state.data, state.size);
}

const WARN = 3;
const ERROR = 4;

export function logWarning(this: void, text: string): void {
  lib.tollgate_log(WARN, text, text.length);
}

export function logError(this: void, text: string): void {
  lib.tollgate_log(ERROR, text, text.length);
}
