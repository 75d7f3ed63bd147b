/** What a worker knows. Each worker of Envoy has a Lua state of its own, and is a node with leases of its own. */

import type { EnvoyOptions } from "../../config/options/plane-options.js";
import type { LearnedSizes } from "../../core/cost.js";
import { type Degradation, defaultDegradationOptions, newDegradation } from "../../core/degradation.js";
import { type Lease, newLease } from "../../core/lease.js";
import type { AppLimits } from "../../core/limits.js";
import { newSyncState, type SyncState } from "../../core/sync.js";
import { type AppCounts, newCounts } from "../lua/counts.js";
import { type PlainCell, plainCell } from "./plain-cell.js";

export interface EnvoyAccount {
  limits: AppLimits;
  cell: PlainCell;
  lease: Lease;
  sync: SyncState;
  /** Below it the lease is filled up again. */
  lowWater: number;
  /** By method. */
  learned: { [method: string]: LearnedSizes | undefined };
  /** On the list of apps that the next message may speak of. */
  touched: boolean;
  counts: AppCounts;
  /** Tokens passed without the store in this second. */
  darkSecond: number;
  dark: PlainCell;
  /** What the headers of its responses say while the limit stays as it is. */
  shownLimit: number;
  limitText: string;
  policyHeader: string;
  rateHeaderStart: string;
}

export interface Worker {
  begun: boolean;
  settings: EnvoyOptions;
  /** The node's name. */
  name: string;
  apps: { [id: string]: EnvoyAccount | undefined };
  everyone: EnvoyAccount[];
  touched: EnvoyAccount[];
  epoch: number;
  seq: number;
  /** A message is under way until its answer comes, or until then: who sent it may be gone. */
  syncingUntil: number;
  /** The number of the message under way; an answer to another one came too late. */
  syncing: number;
  lastContact: number;
  /** Requests since then. */
  sinceContact: number;
  /** From then on it is looked whether there is something to say. */
  lookAt: number;
  failuresInARow: number;
  retryAt: number;
  liveNodes: number;
  emergency: boolean;
  configVersion: string;
  degradation: Degradation;
  level: number;
}

/** Filled by `begin`; one table, so that functions find it without being handed it. */
export const worker = { begun: false } as Worker;

/** A worker asks for little at first: what it does not spend cannot go back before its next request. */
const FIRST_TARGET = 20;

export function newEnvoyAccount(limits: AppLimits, settings: EnvoyOptions, now: number): EnvoyAccount {
  const lease = newLease(settings.lease, now);
  lease.target = Math.min(FIRST_TARGET, settings.lease.reserve);
  return {
    limits,
    cell: plainCell(),
    lease,
    sync: newSyncState(limits.burst, now),
    lowWater: 0,
    learned: {},
    touched: false,
    counts: newCounts(),
    darkSecond: 0,
    dark: plainCell(),
    shownLimit: -1,
    limitText: "",
    policyHeader: "",
    rateHeaderStart: "",
  };
}

export function freshDegradation(): Degradation {
  return newDegradation(defaultDegradationOptions);
}
