/** What a worker knows: the settings, its copies of what all workers share, and what waits in it. */

import type { NginxOptions } from "../../config/options/plane-options.js";
import type { LearnedSizes } from "../../core/cost.js";
import { type Degradation, defaultDegradationOptions, newDegradation } from "../../core/degradation.js";
import { type Lease, newLease } from "../../core/lease.js";
import type { AppLimits } from "../../core/limits.js";
import { newSyncState, type SyncState } from "../../core/sync.js";
import { type AppCounts, newCounts } from "../lua/counts.js";
import type { SharedCell } from "./http/shared-cell.js";
import type { Semaphore, SharedDict } from "./ngx.js";

/** A request that waits for the store, in this worker. */
export interface Waiter {
  cost: number;
  /** Milliseconds since 1970. */
  until: number;
  /** A message of this worker that asks for it, too, has been sent. */
  inMessage: boolean;
  /** How many answers to such messages left it waiting because the store had too little. */
  rounds: number;
  /** Empty while it waits. */
  code: string;
  retryAfterMs: number;
  /** One of the counters' names. */
  source: string;
  signal: Semaphore;
}

export interface NginxAccount {
  limits: AppLimits;
  /** Configured no more: whatever it holds goes back. */
  leaving: boolean;
  cell: SharedCell;
  /** Copies of the shared record, as of `Worker.seen`; who holds the lock changes them and writes them back. */
  lease: Lease;
  sync: SyncState;
  /** The text they were last read from or written as. */
  record: string;
  recordKey: string;
  refusedUntilKey: string;
  /** By method. Each worker learns by itself. */
  learned: { [method: string]: LearnedSizes | undefined };
  waiters: Waiter[];
  waitingCost: number;
  /** On the list of apps that this worker's next message may speak of. */
  touched: boolean;
  /** What this worker has decided since it last said so. */
  counts: AppCounts;
  /** What the headers of its responses say while the limit stays as it is. */
  shownLimit: number;
  limitText: string;
  policyHeader: string;
  rateHeaderStart: string;
}

/** What all workers share about the node itself; a copy, like the leases. */
export interface NodeRecord {
  epoch: number;
  seq: number;
  failuresInARow: number;
  failures: number;
  syncs: number;
  retryAt: number;
  lastContact: number;
  liveNodes: number;
  emergency: boolean;
  /** The service that answered last, from 0. */
  service: number;
  /** The version of the configuration that the service has; "-" before the first answer. */
  configVersion: string;
}

export interface Worker {
  dict: SharedDict;
  settings: NginxOptions;
  /** The node's name. */
  name: string;
  /** Those that are configured. */
  apps: { [id: string]: NginxAccount | undefined };
  /** Those, and the ones that an earlier configuration had: what they hold goes back. */
  everyone: NginxAccount[];
  byId: { [id: string]: NginxAccount | undefined };
  touched: NginxAccount[];
  node: NodeRecord;
  nodeText: string;
  degradation: Degradation;
  degradationText: string;
  /** As of the last look. */
  level: number;
  /** The number of the last change that the copies show. */
  seen: number;
  /** Failures that those who wait here have been told of. */
  failuresSeen: number;
  /** A message is being prepared or on its way, from this worker. */
  syncing: boolean;
  /** A timer that will send one is set. */
  soon: boolean;
  /** Who among the waiting looks after answers to other workers; and when it last did. */
  watcher: Waiter | undefined;
  watchedAt: number;
  /** Admitted exchanges that have not ended. */
  open: number;
  generation: number;
}

/** Filled by `begin`; one table, so that functions find it without being handed it. */
export const worker = {} as Worker;

export function newNginxAccount(
  limits: AppLimits,
  cell: SharedCell,
  settings: NginxOptions,
  now: number,
): NginxAccount {
  const lease = newLease(settings.lease, now);
  // Nobody has used it yet: nothing is fetched for it in advance.
  lease.activeAt = 0;
  return {
    limits,
    leaving: false,
    cell,
    lease,
    sync: newSyncState(limits.burst, now),
    record: "",
    recordKey: `l:${limits.id}`,
    refusedUntilKey: `u:${limits.id}`,
    learned: {},
    waiters: [],
    waitingCost: 0,
    touched: false,
    counts: newCounts(),
    shownLimit: -1,
    limitText: "",
    policyHeader: "",
    rateHeaderStart: "",
  };
}

export function newNodeRecord(): NodeRecord {
  return {
    epoch: 0,
    seq: 0,
    failuresInARow: 0,
    failures: 0,
    syncs: 0,
    retryAt: 0,
    lastContact: 0,
    liveNodes: 1,
    emergency: false,
    service: 0,
    configVersion: "-",
  };
}

export function freshDegradation(): Degradation {
  return newDegradation(defaultDegradationOptions);
}
