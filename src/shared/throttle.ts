/** Limits how many events of one kind per second are handled, such as log lines; the others are counted. */
import type { Clock } from "./clock.js";

export interface ThrottleOptions {
  clock: Pick<Clock, "after">;
  /** How many of a kind are admitted per second. */
  perSecond(kind: string): number;
  /** Called at the end of a second for each kind with events that were not admitted. */
  suppressed(kind: string, count: number): void;
}

/** Further kinds in the same second are counted together. */
const MOST_KINDS = 1_000;
const OTHERS = "others";

export function createThrottle({ clock, perSecond, suppressed }: ThrottleOptions) {
  /** Events of the current second. */
  const kinds = new Map<string, { admitted: number; left: number }>();
  let stopTimer: (() => void) | undefined;

  function endSecond(): void {
    stopTimer?.();
    stopTimer = undefined;
    const ended = [...kinds];
    // First: what `suppressed` does belongs to the next second.
    kinds.clear();
    for (const [kind, { left }] of ended) if (left > 0) suppressed(kind, left);
  }

  return {
    /** Whether to handle an event of this kind. */
    admits(kind: string): boolean {
      const name = kinds.has(kind) || kinds.size < MOST_KINDS ? kind : OTHERS;
      const counts = kinds.get(name) ?? { admitted: 0, left: 0 };
      kinds.set(name, counts);
      stopTimer ??= clock.after(1_000, endSecond);
      const isAdmitted = counts.admitted < perSecond(name);
      if (isAdmitted) counts.admitted++;
      else counts.left++;
      return isAdmitted;
    },
    /** Reports the pending counts now. */
    flush: endSecond,
  };
}
