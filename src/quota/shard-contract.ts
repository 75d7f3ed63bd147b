/** What the calls of a shard take and return. */

import type { BucketLimits } from "../core/app-limits.js";
import type { LeaseMessage } from "../core/lease.js";
import type { NodeReply as EngineReply } from "../engine/reply.js";

/** The limits of the cluster bucket (L1). */
export interface ClusterLimits {
  id: string;
  /** Maximum number of tokens. */
  capacity: number;
  /** Tokens per second. */
  rate: number;
  /** A node that sends no message for this long counts as dead. */
  nodeTtlMs: number;
  /** Default 1. Fixed when the cluster is created. */
  shards?: number;
  /** Names of data planes with their own credentials. The same list until they change. Default: none. */
  planes?: readonly string[];
}

/** A node and its epoch. `seq` numbers its messages from 1; a repeated message keeps its number. */
export interface Sender {
  node: string;
  epoch: number;
  seq: number;
}

export interface GrantRequest extends LeaseMessage {
  app: BucketLimits;
  /** The node holds and needs nothing: its counters of this app restart at zero. */
  finalReport?: boolean;
}

export type ReportRequest = Omit<GrantRequest, "need" | "want" | "finalReport">;

/** An emergency as the first shard has it. Milliseconds; `leftMs` 0: no end. */
export interface CopiedEmergency {
  active: boolean;
  source: string;
  sinceMs: number;
  leftMs: number;
  /** Bursts and borrowing are stopped: the first stage of the automatic emergency. */
  burstsStopped: boolean;
  /** Empty unless an operator started it. */
  reason: string;
  operator: string;
}

/** Part of every reply to a node. */
export interface NodeReply extends EngineReply {
  emergencyLeftMs: number;
}
