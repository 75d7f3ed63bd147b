/** What a keeper of connections is given, and what it tells of itself. */
import type { UpgradeAdmission } from "../planes/node/upgrade/admission.js";
import type { Clock } from "../shared/clock.js";
import type { RouteLimits } from "./limits.js";
import type { Slots } from "./slots.js";

/** What may change while it runs. */
export interface KeeperSettings {
  /** By the name of the route. Routes that are not listed take no connections. */
  routes: ReadonlyMap<string, RouteLimits>;
  /** No admission, and no call of the store, takes longer. */
  timeoutMs: number;
}

export interface KeeperOptions extends KeeperSettings {
  slots: Pick<Slots, "acquire" | "renew" | "release">;
  /** This process in this life: see `newProxyId`. */
  proxy: string;
  /** How many processes share the limits, as far as is known: for routes that go on alone without the store. */
  liveProxies(): number;
  clock?: Clock;
  observer?: KeeperObserver;
  /** From 0 to 1: for pauses and Retry-After that differ between nodes and clients. */
  random?: () => number;
}

/** What is worth a metric or a line in the log. Must not throw. */
export interface KeeperObserver {
  /** Somebody asked for a slot: the code of the answer, and how long it took. */
  decided?(decision: SlotDecision): void;
  /** The store does not answer, or answers again. */
  contactChanged?(away: boolean, error?: unknown): void;
  /** The store has lost its memory; all slots are taken anew before anybody is let in. */
  forgotten?(): void;
  /** Leases were found lost: by a pause of this process, or by a store that lost writes. */
  lost?(count: number): void;
  /** A connection has its lease again, or one at last, when it was let in without the store. */
  reclaimed?(pod: string): void;
  /** There was no room for a connection whose lease was lost: it is closed. */
  closed?(pod: string, code: string): void;
  /** A call of the store failed, and will be made again. */
  failed?(doing: "renew" | "release" | "acquire", error: unknown): void;
}

export interface SlotDecision {
  allowed: boolean;
  /** As in `core/codes.ts`. */
  code: string;
  route: string;
  app: string;
  /** Empty when refused. */
  pod: string;
  /** Decided without the store. */
  dark: boolean;
  milliseconds: number;
}

export interface ConnectionStats {
  proxy: string;
  /** Connections held here, with a lease or without. */
  active: number;
  /** Of these, without a lease: let in while the store was gone. */
  dark: number;
  /** Per pod: connections held here, and the limit that holds for all gateways together. */
  pods: { pod: string; active: number; limit: number }[];
  admitted: number;
  /** Refused so far, by code. */
  refused: Record<string, number>;
  /** Leases that were found lost, taken again, and given up because there was no room. */
  leasesLost: number;
  leasesReclaimed: number;
  leasesClosed: number;
  /** Ended, and not yet booked. */
  releasesWaiting: number;
  /** Ended, and forgotten because too many waited: their leases run out. */
  releasesForgotten: number;
  acquires: { count: number; totalMs: number; longestMs: number };
  storeCalls: number;
  storeAway: boolean;
  /** All that is held here has its lease, as far as is known: nothing is being looked for, taken again or waited for. */
  settled: boolean;
}

export interface ConnectionKeeper extends UpgradeAdmission {
  /** All at once. Open connections stay, whatever the limits are now; new ones follow them. */
  reconfigure(settings: KeeperSettings): void;
  /** From now on nobody is let in. */
  drain(): void;
  /** Frees what is still held, waits until that is booked or the store fails, and stops. */
  close(): Promise<void>;
  stats(): ConnectionStats;
}
