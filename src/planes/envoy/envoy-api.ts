/** The parts of Envoy's Lua API and LuaJIT that this plane uses, with types. */
import type { Several } from "../../engine/host.js";

/** Names are lower case. Some functions return no value at all, not even nil, for a missing header. */
export interface Headers {
  /** The values of a repeated header are joined with commas. */
  get(name: string): string | undefined;
  getNumValues(name: string): number;
  /** Replaces all headers of this name. */
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
  /** `ip:port`, with X-Forwarded-For as Envoy evaluates it. */
  downstreamRemoteAddress(): string;
}

/** The filter metadata of the route. */
export interface RouteMetadata {
  get(key: string): MetadataValue | undefined;
}

/** Shared by all workers. */
export interface Gauge {
  set(value: number): void;
  value(): number;
}

/** Header names and values, including `:status`, `:method`, `:path` and `:authority`. */
export interface HeaderTable {
  [name: string]: string;
}

/** A chunk of a body. */
export interface Chunk {
  length(): number;
}

/** The current request or response. Must not be used after the script's function has returned. */
export interface Handle {
  headers(): Headers;
  /** The request headers, also while the response is processed. */
  requestHeaders(): Headers | undefined;
  streamInfo(): StreamInfo;
  metadata(): RouteMetadata;
  stats(): { gauge(name: string): Gauge };
  /** Waits without blocking the worker. 503 without a host, 504 after the timeout, an error for an unknown cluster. */
  httpCall(
    cluster: string,
    headers: HeaderTable,
    body: string,
    timeoutMs: number,
  ): Several<[{ [name: string]: string | undefined }, string | undefined]>;
  /** Sends a response without calling the backend. Never returns. */
  respond(headers: HeaderTable, body: string): void;
  /** Returns each chunk as it passes, undefined at the end. Does not buffer. */
  bodyChunks(): (this: void) => Chunk | undefined;
  /** Selects the upstream host; `strict` allows no other. */
  setUpstreamOverrideHost(host: string, strict: boolean): void;
  logErr(text: string): void;
  logWarn(text: string): void;
}

interface Bit {
  band(this: void, a: number, b: number): number;
  bor(this: void, a: number, b: number): number;
  bxor(this: void, a: number, b: number): number;
  lshift(this: void, a: number, by: number): number;
  rshift(this: void, a: number, by: number): number;
  rol(this: void, a: number, by: number): number;
  tobit(this: void, a: number): number;
  /** Eight lower case digits. */
  tohex(this: void, a: number): string;
}

interface Io {
  open(this: void, path: string, mode: string): { read(count: number): string; close(): void } | undefined;
}

declare const _G: { readonly io: Io };
declare function require(this: void, module: "bit"): Bit;
declare function tonumber(this: void, value: number | string): number;
declare function tonumber(this: void, text: string, base: 16): number | undefined;

export const luaBit = require("bit");
export const io = _G.io;
export const toNumber: (this: void, value: number | string) => number = tonumber;
export const hexNumber: (this: void, text: string, base: 16) => number | undefined = tonumber;
