/** Where scripts run. Redis and the embedded store both keep this contract; `test/contract` holds them to it. */
import type { ScriptName } from "../scripts/catalog.js";
import type { RedisValue, ScriptReply } from "../scripts/redis-api.js";

export interface RunOptions {
  /** The whole call, retries included, ends within this time. */
  deadlineMs?: number;
}

/** Called for one message after the other, never from within `publish`. What it throws becomes a warning of the process. */
export type MessageHandler = (message: string) => void;

/** When it returns, the handler is not called any more. */
export type Unsubscribe = () => void;

export interface Store {
  /** "embedded", "redis", "redis-cluster" or "redis-sentinel". */
  readonly kind: StoreKind;
  /** True where the keys of one decision must carry a hash tag. */
  readonly hashTags: boolean;
  /**
   * Runs a script atomically. After a lost connection the very same call is sent again within the deadline:
   * scripts recognise a call by the ids it carries, so a repetition changes nothing and gets the first answer.
   * Rejects with a StoreError and nothing else.
   */
  run(script: ScriptName, keys: string[], args: RedisValue[], options?: RunOptions): Promise<ScriptReply>;
  /**
   * Tells all who listen to the channel, in every process on this store; those who are not connected just then miss
   * it. After a lost connection it may come twice or late. So a message is a hint, and the truth is in the store.
   * Ends within the deadline and rejects like `run`.
   */
  publish(channel: string, message: string, options?: RunOptions): Promise<void>;
  /**
   * Listens from when the promise is kept until told otherwise, through lost connections and failovers; what is said
   * meanwhile is missed. Rejects like `run` when nobody can be listened to within the deadline; then nothing remains.
   */
  subscribe(channel: string, handler: MessageHandler, options?: RunOptions): Promise<Unsubscribe>;
  /** Facts for health checks; warnings are sentences for an operator. */
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
  /** Calls of this process that the servers have not answered yet, and how many there may be; 0 and 0 where none wait. */
  callsInFlight: number;
  mostCallsInFlight: number;
  evictionPolicy: string;
  warnings: string[];
}
