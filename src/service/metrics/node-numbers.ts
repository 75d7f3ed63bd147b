/** The numbers of a process that are not about apps: its store's calls, its messages to the store, its event loop. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { LimiterObserver } from "../../limiter/limiter.js";
import type { StoreObserver } from "../../store/observed-store.js";
import {
  type Counters,
  listOf,
  STORE_LATENCY,
  STORE_WIDTH,
  SYNC_APPS,
  SYNC_KEY,
  SYNC_LATENCY,
  SYNC_WIDTH,
  storeKey,
  storeOutcomes,
  syncOutcomes,
} from "./counters.js";
import { callBoundsSeconds, histogramWidth, observe, syncAppsBounds } from "./histogram.js";

export interface StoreNumbers extends StoreObserver {
  exportTo(counters: Counters): void;
}

/** Commands are those of the catalog and a few more, so there are never many. */
export function createStoreNumbers(): StoreNumbers {
  const commands = new Map<string, Float64Array>();
  return {
    called(command, outcome, seconds) {
      let numbers = commands.get(command);
      if (numbers === undefined) {
        numbers = new Float64Array(STORE_WIDTH);
        commands.set(command, numbers);
      }
      numbers[storeOutcomes.indexOf(outcome)]!++;
      observe(numbers, STORE_LATENCY, callBoundsSeconds, seconds);
    },
    exportTo(counters) {
      for (const [command, numbers] of commands) counters[storeKey(command)] = listOf(numbers);
    },
  };
}

export interface SyncNumbers {
  synced: NonNullable<LimiterObserver["synced"]>;
  exportTo(counters: Counters): void;
}

export function createSyncNumbers(): SyncNumbers {
  const numbers = new Float64Array(SYNC_WIDTH);
  return {
    synced(outcome, milliseconds, apps) {
      observe(numbers, SYNC_APPS, syncAppsBounds, apps);
      const at = SYNC_LATENCY + syncOutcomes.indexOf(outcome) * histogramWidth(callBoundsSeconds);
      observe(numbers, at, callBoundsSeconds, milliseconds / 1000);
    },
    exportTo(counters) {
      counters[SYNC_KEY] = listOf(numbers);
    },
  };
}

export interface LoopLag {
  /** Since it was last asked. */
  take(): { meanSeconds: number; p99Seconds: number };
  close(): void;
}

const RESOLUTION_MS = 20;

/** Sampled by the engine itself, without a turn of the event loop of our own. */
export function watchLoopLag(): LoopLag {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delays.enable();
  // What is measured is the time between two samples: the pause between them is no delay.
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
