/**
 * The host of the Lua plane: besides the engine's interface, what a proxy provides to it. nginx implements it in `planes/nginx/host.ts`;
 * Envoy's module in `planes/envoy/main-thread/host.ts` for its main thread and in `planes/envoy/worker/host.ts` for its workers.
 *
 * Both have several workers, each with its own Lua state. What they must agree on is in shared memory: balances, records of
 * accounts and of the node, counters, values of limits.
 */
import type { Host, SyncHost } from "../../engine/host.js";
import type { PlaneAccount } from "./http/state.js";
import type { Caller, ServiceReply, SharedMemory } from "./proxy.js";

/** What every worker needs to decide and settle. `http/accounts.ts` has the functions about accounts. */
export interface LuaHost extends Host<PlaneAccount, void> {
  /** The name of the proxy in log lines. */
  plane: string;
  memory: SharedMemory;
  logError(this: void, text: string): void;
}

/** What a worker needs besides to send messages: every worker of nginx, the main thread of Envoy. `http/syncer.ts` has what both share. */
export interface LuaSyncHost extends LuaHost, SyncHost<PlaneAccount, void> {
  /** The system's clock, to measure durations. */
  freshNowMs(this: void): number;

  // Tasks, also those of `soon`. Only a task may sleep or call a service; others run meanwhile.
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

/** The host of this Lua state: the plane sets it before anything else runs. `sync` is the same one, in states that send messages. */
export const running = {} as { host: LuaHost; sync: LuaSyncHost };

export function nowMs(): number {
  return running.host.nowMs();
}
