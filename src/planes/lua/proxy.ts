/** What a proxy has, as the Lua plane uses it: memory that its workers share, and calls of services. */

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
