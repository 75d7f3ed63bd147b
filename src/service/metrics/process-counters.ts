/** Counters of a process that do not belong to an app: store calls, syncs, connections and event loop delay. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { LimiterObserver } from "../../limiter/limiter.js";
import type { SlotKeeperObserver } from "../../slots/slot-keeper-options.js";
import type { StoreObserver } from "../../store/observed-store.js";
import {
  CONNECTIONS_ACQUIRE,
  CONNECTIONS_KEY,
  CONNECTIONS_LOST,
  CONNECTIONS_RECLAIMED,
  CONNECTIONS_REFUSED,
  CONNECTIONS_WIDTH,
  type Counters,
  callBoundsSeconds,
  histogramWidth,
  listOf,
  observe,
  STORE_LATENCY,
  STORE_WIDTH,
  SYNC_APPS,
  SYNC_KEY,
  SYNC_LATENCY,
  SYNC_WIDTH,
  storeKey,
  storeOutcomes,
  syncAppsBounds,
  syncOutcomes,
} from "./counters.js";
import { connectionReasons } from "./labels.js";
import type { PodGauge, ProxyGauge } from "./reports.js";

interface Exported {
  exportTo(counters: Counters): void;
}

export function createStoreCounters(): StoreObserver & Exported {
  const commands = new Map<string, Float64Array>();
  return {
    called(command, outcome, seconds) {
      let counters = commands.get(command);
      if (counters === undefined) {
        counters = new Float64Array(STORE_WIDTH);
        commands.set(command, counters);
      }
      counters[storeOutcomes.indexOf(outcome)]!++;
      observe(counters, STORE_LATENCY, callBoundsSeconds, seconds);
    },
    exportTo(exported) {
      for (const [command, counters] of commands) exported[storeKey(command)] = listOf(counters);
    },
  };
}

export interface SyncCounters extends Exported {
  synced: NonNullable<LimiterObserver["synced"]>;
}

export function createSyncCounters(): SyncCounters {
  const counters = new Float64Array(SYNC_WIDTH);
  return {
    synced(outcome, milliseconds, apps) {
      observe(counters, SYNC_APPS, syncAppsBounds, apps);
      const at = SYNC_LATENCY + syncOutcomes.indexOf(outcome) * histogramWidth(callBoundsSeconds);
      observe(counters, at, callBoundsSeconds, milliseconds / 1000);
    },
    exportTo(exported) {
      exported[SYNC_KEY] = listOf(counters);
    },
  };
}

export interface ConnectionCounters extends Required<Pick<SlotKeeperObserver, "decided" | "lost" | "reclaimed">> {
  exportTo(counters: Counters): void;
}

/** Counts the events of a slot keeper. */
export function createConnectionCounters(): ConnectionCounters {
  const counters = new Float64Array(CONNECTIONS_WIDTH);
  const other = connectionReasons.length - 1;
  return {
    decided({ allowed, code, milliseconds }) {
      observe(counters, CONNECTIONS_ACQUIRE, callBoundsSeconds, milliseconds / 1000);
      if (allowed) return;
      const index = connectionReasons.indexOf(code);
      counters[CONNECTIONS_REFUSED + (index < 0 ? other : index)]!++;
    },
    lost(leases) {
      counters[CONNECTIONS_LOST]! += leases;
    },
    reclaimed() {
      counters[CONNECTIONS_RECLAIMED]!++;
    },
    exportTo(exported) {
      exported[CONNECTIONS_KEY] = listOf(counters);
    },
  };
}

/** The connections of a process: its counters, and the number of connections per pod and per holder. */
export interface ConnectionMetrics {
  /** Configured pods, and removed ones that still have connections. */
  pods: PodGauge[];
  /** Holders of connections through this process. */
  proxies: ProxyGauge[];
  counters: ConnectionCounters;
}

export interface LoopLag {
  /** Since the last call. */
  take(): { meanSeconds: number; p99Seconds: number };
  close(): void;
}

const RESOLUTION_MS = 20;

/** Measures event loop delay in libuv, without timers of our own. */
export function watchLoopLag(): LoopLag {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delays.enable();
  // Node reports the time between two samples; the sampling interval itself is no delay.
  const lag = (nanoseconds: number) => Math.max(nanoseconds / 1e9 - RESOLUTION_MS / 1000, 0) || 0;
  return {
    take() {
      const taken = { meanSeconds: lag(delays.mean), p99Seconds: lag(delays.percentile(99)) };
      delays.reset();
      return taken;
    },
    close: () => void delays.disable(),
  };
}
