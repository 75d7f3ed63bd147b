/** A host on which nothing happens while it stands still, as in a process that was stopped; all that was due happens when it goes on. */
import type { Host } from "../../../src/shared/clock.js";

export interface StandingHost extends Host {
  pause(): void;
  resume(): Promise<void>;
  /** Resolves at once, or when it goes on: answers that arrive meanwhile are read only then. */
  awake(): Promise<void>;
}

export function createStandingHost(host: Host): StandingHost {
  let standing = false;
  const due: (() => void)[] = [];
  return {
    now: () => host.now(),
    after(ms, work) {
      let forgotten = false;
      const run = () => {
        if (forgotten) return;
        if (standing) due.push(run);
        else work();
      };
      const forget = host.after(ms, run);
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
        // As in Node: what follows from a timer happens before the next one.
        for (let i = 0; i < 12; i++) await Promise.resolve();
      }
    },
    awake: () => new Promise((resolve) => (standing ? due.push(resolve) : resolve())),
  };
}
