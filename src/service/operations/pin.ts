/** A degradation level pinned by an operator: sent to all workers and data planes until it expires. */
import { type Clock, systemClock } from "../../shared/clock.js";

export type Pin = ReturnType<typeof createPin>;

export interface PinOptions {
  /** Sends the level to all workers; a duration of 0 unpins it. */
  send(level: number, durationMs: number): void;
  clock?: Clock;
  wallClock?: () => number;
}

export function createPin({ send, clock = systemClock, wallClock = Date.now }: PinOptions) {
  /** `untilMs` is Unix time. */
  let pinned: { level: number; untilMs: number; reason: string; operator: string } | undefined;
  let endsAt = 0;

  return {
    /** Undefined if no level is pinned. Also sent to workers that start later. */
    current() {
      const leftMs = Math.ceil(endsAt - clock.now());
      return pinned === undefined || leftMs <= 0 ? undefined : { ...pinned, leftMs };
    },
    set(level: number, durationMs: number, reason: string, operator: string) {
      pinned = { level, untilMs: wallClock() + durationMs, reason, operator };
      endsAt = clock.now() + durationMs;
      send(level, durationMs);
      return pinned;
    },
    clear(): void {
      pinned = undefined;
      send(0, 0);
    },
  };
}
