/** The parts of nginx's Lua API, lua-resty-core and LuaJIT that this plane uses, with types. */
import type { Result, Several, SharedMemory } from "../lua/proxy.js";

/** A dictionary in shared memory. */
export type SharedDict = SharedMemory;

/** A socket that lets the worker process other requests while it waits. */
export interface Socket {
  settimeouts(connectMs: number, sendMs: number, readMs: number): void;
  /** @param options the name of the pool of kept connections */
  connect(host: string, port: number, options: { pool: string }): Result<number>;
  /** With this certificate and key, as parsed by the `ssl` module. */
  setclientcert(certificate: unknown, key: unknown): Result<boolean>;
  /** Without a session to resume. Verifies the certificate of the server, which must have the name. */
  sslhandshake(session: false, name: string, verify: true): Result<boolean>;
  send(data: string): Result<number>;
  /** A line without its line end ("*l"), or the given number of bytes. */
  receive(what: "*l" | number): Result<string>;
  setkeepalive(idleMs: number, poolSize: number): Result<number>;
  getreusedtimes(): number;
  close(): void;
}

export interface Semaphore {
  /** Undefined and "timeout" when there was no post in time. */
  wait(seconds: number): Result<boolean>;
  post(times: number): void;
}

export interface Ngx {
  readonly shared: { [name: string]: SharedDict | undefined };
  readonly var: { [name: string]: string | undefined };
  /** Headers of the response; a header that was sent more than once has a list. Undefined removes one. */
  readonly header: { [name: string]: string | number | string[] | undefined };
  status: number;
  readonly req: {
    get_method(this: void): string;
    /** Names in lower case; a header that was sent more than once has a list. "truncated" if there are more than `most`. */
    get_headers(
      this: void,
      most: number,
    ): Several<[{ readonly [name: string]: string | string[] }, "truncated" | undefined]>;
    /** Replaces all headers of this name. */
    set_header(this: void, name: string, value: string): void;
    clear_header(this: void, name: string): void;
    is_internal(this: void): boolean;
    /** nginx encodes the path when it passes it on. Without `jump` the location stays; `binary` allows any bytes. */
    set_uri(this: void, path: string, jump: boolean, binary: boolean): void;
    /**
     * Reads the whole body, into a file if it is large. nginx itself answers a body above client_max_body_size with 413.
     * Does not return if the client disconnects.
     */
    read_body(this: void): void;
  };
  /** The current request is a subrequest. */
  readonly is_subrequest: boolean;
  readonly socket: { tcp(this: void): Socket };
  readonly timer: {
    at(this: void, seconds: number, handler: (this: void, premature: boolean) => void): Result<boolean>;
    every(this: void, seconds: number, handler: (this: void, premature: boolean) => void): Result<boolean>;
  };
  readonly worker: {
    pid(this: void): number;
    count(this: void): number;
  };
  readonly config: { nginx_version: number };
  /** Light threads: each runs until it waits. */
  readonly thread: {
    spawn<T>(this: void, work: (this: void, given: T) => void, given: T): unknown;
    /** False and the error when the thread failed. */
    wait(this: void, thread: unknown): Several<[boolean, string | undefined]>;
  };
  /** Seconds since 1970, cached by the event loop. */
  now(this: void): number;
  update_time(this: void): void;
  sleep(this: void, seconds: number): void;
  log(this: void, level: number, ...texts: (string | number)[]): void;
  print(this: void, text: string): void;
  exit(this: void, status: number): void;
  sha1_bin(this: void, text: string): string;
  encode_base64(this: void, text: string): string;
  readonly ERR: number;
  readonly WARN: number;
}

/** A C array that Lua allocated. */
export interface Bytes {
  [index: number]: number;
}

/** LuaJIT's interface to C: only functions of the system's C library. */
interface Ffi {
  readonly C: {
    shutdown(this: void, descriptor: number, how: number): number;
    getpeername(this: void, descriptor: number, address: Bytes, length: Bytes): number;
    getsockname(this: void, descriptor: number, address: Bytes, length: Bytes): number;
    inet_pton(this: void, family: number, text: string, into: Bytes): number;
    /** Signal 0 only checks whether the process exists. */
    kill(this: void, pid: number, signal: number): number;
  };
  cdef(this: void, declarations: string): void;
  "new"(this: void, type: string, count?: number): Bytes;
  readonly os: string;
  /** The error of the last call. */
  errno(this: void): number;
}

interface SemaphoreModule {
  "new"(this: void, resources: number): Semaphore;
}

/** Parses certificates and keys in PEM. */
interface SslModule {
  parse_pem_cert(this: void, pem: string): Result<unknown>;
  parse_pem_priv_key(this: void, pem: string): Result<unknown>;
}

interface File {
  read(what: "*a"): string;
  close(): void;
}

declare const _G: {
  readonly ngx: Ngx;
  readonly io: { open(this: void, path: string, mode: "rb"): Result<File> };
  /** Ends the script with this message. */
  error(this: void, message: string): never;
};
declare function require(this: void, module: "ffi"): Ffi;
declare function require(this: void, module: "ngx.semaphore"): SemaphoreModule;
declare function require(this: void, module: "ngx.ssl"): SslModule;

export const ngx = _G.ngx;
export const ffi = require("ffi");
export const semaphore = require("ngx.semaphore");
export const ssl = require("ngx.ssl");
export const io = _G.io;
export const fail = _G.error;
