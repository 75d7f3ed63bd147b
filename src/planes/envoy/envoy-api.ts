/** The parts of Envoy's Lua API and LuaJIT that this plane uses, with types. */
import type { Several } from "../lua/library.js";

/** Names are lower case. Some functions give nothing at all, not even nil, where there is nothing. */
export interface Headers {
  /** Of a header that came more than once: all values, with a comma between them. */
  get(name: string): string | undefined;
  getNumValues(name: string): number;
  /** From 0; nothing for an empty value. */
  getAtIndex(name: string, index: number): string | undefined;
  add(name: string, value: string): void;
  /** In the place of all that have the name. */
  replace(name: string, value: string): void;
  remove(name: string): void;
}

export type MetadataValue = string | number | boolean | { [key: string]: MetadataValue };

export interface DynamicMetadata {
  get(namespace: string): { [key: string]: MetadataValue | undefined } | undefined;
  set(namespace: string, key: string, value: MetadataValue): void;
}

export interface StreamInfo {
  dynamicMetadata(): DynamicMetadata;
  /** `ip:port`, as Envoy understands X-Forwarded-For. */
  downstreamRemoteAddress(): string;
  routeName(): string;
}

/** What the configuration says of the route, for this filter. */
export interface RouteMetadata {
  get(key: string): MetadataValue | undefined;
}

/** One for all workers. */
export interface Gauge {
  inc(by?: number): void;
  set(value: number): void;
  value(): number;
}

export interface Counter {
  inc(by?: number): void;
}

/** Names → values; `:status`, `:method`, `:path` and `:authority` are among them. */
export interface HeaderTable {
  [name: string]: string;
}

/** A piece of a body. */
export interface Chunk {
  length(): number;
}

/** A request or a response at hand. Not to be used after the script's function has returned. */
export interface Handle {
  headers(): Headers;
  /** Of the request, also while its response is at hand. */
  requestHeaders(): Headers | undefined;
  streamInfo(): StreamInfo;
  metadata(): RouteMetadata;
  stats(): { counter(name: string): Counter; gauge(name: string): Gauge };
  /** Waits; others go on meanwhile. 503 where nobody is there, 504 after the timeout; an error where there is no cluster. */
  httpCall(
    cluster: string,
    headers: HeaderTable,
    body: string,
    timeoutMs: number,
  ): Several<[{ [name: string]: string | undefined }, string | undefined]>;
  /** Answers in the place of the backend. Never returns. */
  respond(headers: HeaderTable, body: string): void;
  /** Gives one piece after the other as they pass, and nothing at the end. Nothing is held back for that. */
  bodyChunks(): (this: void) => Chunk | undefined;
  /** The host to be dialled; strict: no other. */
  setUpstreamOverrideHost(host: string, strict: boolean): void;
  logErr(text: string): void;
  logWarn(text: string): void;
  logInfo(text: string): void;
}

/** Memory that C fills. */
export interface Timespec {
  readonly seconds: number;
  readonly nanoseconds: number;
}

export interface CharBuffer {
  readonly __chars: never;
}

/** LuaJIT's interface to C. */
interface Ffi {
  readonly C: {
    clock_gettime(this: void, clock: number, into: Timespec): number;
    gethostname(this: void, into: CharBuffer, size: number): number;
    getpid(this: void): number;
  };
  cdef(this: void, declarations: string): void;
  "new"(this: void, type: "char[?]", count: number): CharBuffer;
  "new"(this: void, type: "tollgate_time"): Timespec;
  /** Up to the first NUL. */
  string(this: void, data: CharBuffer): string;
}

interface Bit {
  band(this: void, a: number, b: number): number;
  bor(this: void, a: number, b: number): number;
  bxor(this: void, a: number, b: number): number;
  bnot(this: void, a: number): number;
  lshift(this: void, a: number, by: number): number;
  rshift(this: void, a: number, by: number): number;
  rol(this: void, a: number, by: number): number;
  tobit(this: void, a: number): number;
}

interface Io {
  open(this: void, path: string, mode: string): { read(count: number): string; close(): void } | undefined;
}

declare const _G: { readonly io: Io };
declare function require(this: void, module: "ffi"): Ffi;
declare function require(this: void, module: "bit"): Bit;
declare function tonumber(this: void, value: number | string): number;
declare function tonumber(this: void, text: string, base: 16): number | undefined;

export const ffi = require("ffi");
export const luaBit = require("bit");
export const io = _G.io;
export const toNumber: (this: void, value: number | string) => number = tonumber;
export const hexNumber: (this: void, text: string, base: 16) => number | undefined = tonumber;
