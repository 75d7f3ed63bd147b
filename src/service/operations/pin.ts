/** The degradation level that an operator pinned: told to all workers and to data planes, and over after its time. */
import { type Clock, systemClock } from "../../shared/clock.js";

export interface PinnedLevel {
  level: number;
  /** Milliseconds since 1970. */
  untilMs: number;
  leftMs: number;
  reason: string;
  operator: string;
}

export interface Pin {
  /** Undefined where none is, or none any more. Workers that start later are told of it, too. */
  current(): PinnedLevel | undefined;
  set(level: number, durationMs: number, reason: string, operator: string): PinnedLevel;
  clear(): void;
}

export interface PinOptions {
  /** Tells all workers that listen; a duration of 0 lets go. */
  tell(level: number, durationMs: number): void;
  clock?: Clock;
  wallClock?: () => number;
}

export function createPin({ tell, clock = systemClock, wallClock = Date.now }: PinOptions): Pin {
  let pinned: (Omit<PinnedLevel, "leftMs"> & { until: number }) | undefined;

  function current(): PinnedLevel | undefined {
    if (pinned === undefined) return undefined;
    const { until, ...rest } = pinned;
    const leftMs = Math.ceil(until - clock.now());
    if (leftMs <= 0) {
      pinned = undefined;
      return undefined;
    }
    return { ...rest, leftMs };
  }

  return {
    current,
    set(level, durationMs, reason, operator) {
      const rest = { level, untilMs: wallClock() + durationMs, reason, operator };
      pinned = { ...rest, until: clock.now() + durationMs };
      tell(level, durationMs);
      return { ...rest, leftMs: durationMs };
    },
    clear() {
      pinned = undefined;
      tell(0, 0);
    },
  };
}
