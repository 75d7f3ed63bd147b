/** A clock that can stop, like that of a suspended process; overdue timers run when it continues. */
import type { Clock } from "../../../src/shared/clock.js";

export interface StandingClock extends Clock {
  pause(): void;
  resume(): Promise<void>;
  /** Resolves at once, or when the process is resumed: replies that arrive meanwhile are read only then. */
  awake(): Promise<void>;
}

export function createStandingClock(clock: Clock): StandingClock {
  let standing = false;
  const due: (() => void)[] = [];
  return {
    now: () => clock.now(),
    after(ms, work) {
      let forgotten = false;
      const run = () => {
        if (forgotten) return;
        if (standing) due.push(run);
        else work();
      };
      const forget = clock.after(ms, run);
      return () => {
        forgotten = true;
        forget();
      };
    },
    pause() {
      standing = true;
    },
    async resume() {
      standing = false;
      for (const run of due.splice(0)) {
        run();
        // As in Node: microtasks of a timer run before the next timer.
        for (let i = 0; i < 12; i++) await Promise.resolve();
      }
    },
    awake: () => new Promise((resolve) => (standing ? due.push(resolve) : resolve())),
  };
}
