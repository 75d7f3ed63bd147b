/** The deadline of one call: wakes everything that waits and builds the error for the caller. */
import { StoreError } from "../errors.js";
import { reasonOf } from "./redis-errors.js";

export interface Deadline {
  over: boolean;
  /** True while a reply is due. */
  awaitingReply: boolean;
  /** Why the last attempt failed. */
  reason: StoreError | undefined;
  error(): StoreError;
  race<T>(work: Promise<T>): Promise<T>;
  pause(ms: number): Promise<void>;
  /** Resolves when `wake` is called, at the latest at the deadline. `start` returns a function that stops waiting. */
  until(start: (wake: () => void) => () => void): Promise<void>;
  end(): void;
}

/** @param obstacle the current problem, used when no attempt has failed yet */
export function createDeadline(ms: number, obstacle: () => StoreError | undefined): Deadline {
  const wakeUps = new Set<() => void>();
  const timer = setTimeout(() => {
    deadline.over = true;
    for (const wake of [...wakeUps]) wake();
  }, ms);

  const deadline: Deadline = {
    over: false,
    awaitingReply: false,
    reason: undefined,
    error() {
      const reason = deadline.reason ?? obstacle();
      const why = reason === undefined ? "" : ` (${reasonOf(reason)})`;
      const cause = reason?.cause;
      return deadline.awaitingReply
        ? new StoreError("timeout", `no reply within ${ms} ms${why}`, { cause })
        : new StoreError("unavailable", `Redis could not be used within ${ms} ms${why}`, { cause });
    },
    race(work) {
      return new Promise((resolve, reject) => {
        wakeUps.add(() => reject(deadline.error()));
        work.then(resolve, reject);
      });
    },
    pause: (pauseMs) =>
      deadline.until((wake) => {
        const pauseTimer = setTimeout(wake, pauseMs);
        return () => clearTimeout(pauseTimer);
      }),
    until(start) {
      return new Promise((resolve) => {
        if (deadline.over) return resolve();
        const wake = () => {
          wakeUps.delete(wake);
          stop();
          resolve();
        };
        const stop = start(wake);
        wakeUps.add(wake);
      });
    },
    end: () => clearTimeout(timer),
  };
  return deadline;
}
