/** A degradation level pinned by an operator: sent to all workers and data planes until it expires. */
import { type Clock, systemClock } from "../../shared/clock.js";

export interface PinnedLevel {
  level: number;
  /** Unix time in milliseconds. */
  untilMs: number;
  leftMs: number;
  reason: string;
  operator: string;
}

export type Pin = ReturnType<typeof createPin>;

export interface PinOptions {
  /** Sends the level to all workers; a duration of 0 unpins it. */
  send(level: number, durationMs: number): void;
  clock?: Clock;
  wallClock?: () => number;
}

export function createPin({ send, clock = systemClock, wallClock = Date.now }: PinOptions) {
  let pinned: (Omit<PinnedLevel, "leftMs"> & { until: number }) | undefined;

  return {
    /** Undefined if no level is pinned. Workers that start later get it, too. */
    current(): PinnedLevel | undefined {
      if (pinned === undefined) return undefined;
      const { until, ...rest } = pinned;
      const leftMs = Math.ceil(until - clock.now());
      if (leftMs > 0) return { ...rest, leftMs };
      pinned = undefined;
      return undefined;
    },
    set(level: number, durationMs: number, reason: string, operator: string): PinnedLevel {
      const rest = { level, untilMs: wallClock() + durationMs, reason, operator };
      pinned = { ...rest, until: clock.now() + durationMs };
      send(level, durationMs);
      return { ...rest, leftMs: durationMs };
    },
    clear(): void {
      pinned = undefined;
      send(0, 0);
    },
  };
}
