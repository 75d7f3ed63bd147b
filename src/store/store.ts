/** The interface of all stores: runs scripts and delivers messages. `test/contract` tests every implementation. */
import type { ScriptName } from "../scripts/catalog.js";
import type { RedisValue, ScriptReply } from "../scripts/redis-api.js";

export interface RunOptions {
  /** Limits the whole call including retries. */
  deadlineMs?: number;
}

/** Called for each message, never from within `publish`. An exception becomes a process warning. */
export type MessageHandler = (message: string) => void;

/** After it returns, the handler is not called any more. */
export type Unsubscribe = () => void;

export interface Store {
  readonly kind: StoreKind;
  /**
   * Runs a script atomically. All keys of a call share a hash tag. After a lost connection the same call is repeated within the deadline: scripts
   * recognise it by its ids, change nothing and return the first reply. Rejects only with StoreError.
   */
  run(script: ScriptName, keys: string[], args: RedisValue[], options?: RunOptions): Promise<ScriptReply>;
  /**
   * Sends a message to all subscribers in all processes. Disconnected subscribers miss it; after a lost connection it
   * may arrive late or twice. A message is therefore only a hint to read the store. Rejects like `run`.
   */
  publish(channel: string, message: string, options?: RunOptions): Promise<void>;
  /**
   * Subscribes once the promise resolves. Survives lost connections and failovers, but misses messages meanwhile.
   * Rejects like `run` if it fails within the deadline; then there is no subscription.
   */
  subscribe(channel: string, handler: MessageHandler, options?: RunOptions): Promise<Unsubscribe>;
  /** Facts for health checks, with warnings for operators. */
  inspect(): Promise<StoreFacts>;
  close(): Promise<void>;
}

export type StoreKind = "embedded" | "redis" | "redis-cluster" | "redis-sentinel";

export interface StoreFacts {
  kind: StoreKind;
  version: string;
  nodes: number;
  connectedNodes: number;
  latencyMs: number;
  /** Calls of this process without a reply, and their maximum; both 0 if calls never wait. */
  callsInFlight: number;
  mostCallsInFlight: number;
  evictionPolicy: string;
  warnings: string[];
}
