/**
 * The host interface of the Lua plane: what a proxy provides, so that the same code decides, waits, syncs, settles and reports in
 * it. nginx implements it in `planes/nginx/host.ts`; Envoy's module in `planes/envoy/main-thread/host.ts` for its main thread and
 * in `planes/envoy/worker/host.ts` for its workers.
 *
 * Both have several workers, each with its own Lua state. What they must agree on is in shared memory: balances, records of
 * accounts and of the node, counters, values of limits.
 */
import type { Account, Outcome, Waiter } from "./account.js";

/** Several return values of one Lua call; TypeScriptToLua recognises the type by its field. */
export type Several<T extends unknown[]> = T & { __tstlMultiReturn: unknown };

/** The result, or undefined and the problem. */
export type Result<T> = Several<[T | undefined, string | undefined]>;

/** Memory that all workers share. Each call is atomic. */
export interface SharedMemory {
  get(key: string): number | string | boolean | undefined;
  /** Adds to an existing number; undefined if the key has no number. */
  incr(key: string, by: number): number | undefined;
  /** Creates the number if necessary. */
  incr(key: string, by: number, initial: number): number | undefined;
  /** Never removes another entry; fails when memory is full. */
  safe_set(key: string, value: number | string | boolean, secondsToLive?: number): Result<boolean>;
  /** False and "exists" if the key exists. Never removes another entry. */
  safe_add(key: string, value: number | string | boolean, secondsToLive?: number): Result<boolean>;
  delete(key: string): void;
  /** The entry is removed after this time; 0: never. Does nothing if there is none. */
  expire(key: string, secondsToLive: number): void;
  /** The new length of the list; undefined when memory is full. Never removes another entry. */
  lpush(key: string, value: number | string): number | undefined;
  rpop(key: string): number | string | undefined;
  llen(key: string): number | undefined;
  free_space(): number;
  capacity(): number;
}

/** The reply of a service. */
export interface ServiceReply {
  /** 0 if no service replied. */
  status: number;
  body: string;
  timedOut: boolean;
  problem: string;
  /** Milliseconds until the reply arrived, without the time that the worker itself was busy. */
  tookMs: number;
}

/** A node that sends messages to one shard. */
export interface Caller {
  /** Ends the names of its entries in shared memory. */
  suffix: string;
  /** Index of the service that replied last, for hosts that choose one themselves. */
  service: number;
}

/** What every worker needs to decide and settle. */
export interface Host {
  /** The name of the proxy in log lines. */
  plane: string;
  memory: SharedMemory;

  /** Milliseconds since 1970. A host may return the time at which the current turn of its event loop began. */
  nowMs(this: void): number;

  /** `decideMiss` has said that these outcomes of the current request have to wait: returns when all are decided. */
  awaitTokens(this: void, outcomes: Outcome[]): void;
  /** The lease of the account is low: a message should be sent soon. */
  wantTokens(this: void, account: Account): void;

  logError(this: void, text: string): void;
}

/** What a worker needs besides to send messages: every worker of nginx, the main thread of Envoy. */
export interface SyncHost extends Host {
  /** The system's clock, to measure durations. */
  freshNowMs(this: void): number;

  // Tasks. Only a task may sleep or call a service; others run meanwhile.
  /** Starts a task after this turn of the event loop. False if that is not possible. */
  soon(this: void, work: (this: void) => void): boolean;
  /** Starts a task now; it runs until it waits. */
  spawn<T>(this: void, work: (this: void, given: T) => void, given: T): void;
  /** Runs one task for each, and returns when all have ended. */
  runAll<T>(this: void, work: (this: void, given: T) => void, given: readonly T[]): void;
  sleep(this: void, seconds: number): void;

  // Messages. One worker at a time sends to a shard.
  takeLock(this: void, caller: Caller): boolean;
  /** False if it expired during a pause: another worker may have continued. */
  holdsLock(this: void, caller: Caller): boolean;
  releaseLock(this: void, caller: Caller): void;
  callService(this: void, caller: Caller, path: string, body: string, deadlineMs: number): ServiceReply;

  /** A waiter of this worker is decided. */
  wake(this: void, waiter: Waiter): void;

  logWarning(this: void, text: string): void;
  nodeDetails(this: void): NodeDetails;
}

/** What a message says about the node besides what all nodes report. */
export interface NodeDetails {
  /** Fields for its line, beginning with a space. */
  fields: string;
  /** Lines that follow. */
  lines: string;
}
