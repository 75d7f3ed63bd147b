/** Where scripts run. Redis and the embedded store both keep this contract; `test/contract` holds them to it. */
import type { ScriptName } from "../scripts/catalog.js";
import type { RedisValue, ScriptReply } from "../scripts/redis-api.js";

export interface RunOptions {
  /** The whole call, retries included, ends within this time. */
  deadlineMs?: number;
}

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
  evictionPolicy: string;
  warnings: string[];
}
