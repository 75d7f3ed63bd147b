/** The deadline of one call, and the error for the caller when it is reached. */
import type { EventEmitter } from "node:events";
import { StoreError } from "../errors.js";
import { reasonOf } from "./redis-errors.js";

export type Deadline = ReturnType<typeof createDeadline>;

/** @param obstacle the current problem, used when no attempt has failed yet */
export function createDeadline(ms: number, obstacle?: () => StoreError | undefined) {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      deadline.over = true;
      resolve();
    }, ms);
  });

  const deadline = {
    over: false,
    /** True while a reply is due. */
    awaitingReply: false,
    /** Why the last attempt failed. */
    reason: undefined as StoreError | undefined,
    error(): StoreError {
      const reason = deadline.reason ?? obstacle?.();
      const why = reason === undefined ? "" : ` (${reasonOf(reason)})`;
      const cause = reason?.cause;
      return deadline.awaitingReply
        ? new StoreError("timeout", `no reply within ${ms} ms${why}`, { cause })
        : new StoreError("unavailable", `Redis could not be used within ${ms} ms${why}`, { cause });
    },
    /** The result of `work`; rejects at the deadline. */
    race<T>(work: Promise<T>): Promise<T> {
      const tooLate = expired.then(() => {
        throw deadline.error();
      });
      return Promise.race([work, tooLate]);
    },
    /** Resolves with the event, at the latest at the deadline. */
    async until(event: Promise<unknown>): Promise<void> {
      await Promise.race([event, expired]);
    },
    /** Resolves with the next "change", at the latest at the deadline. */
    async nextChange(changes: EventEmitter): Promise<void> {
      let listener = () => {};
      const changed = new Promise<void>((resolve) => {
        listener = resolve;
      });
      changes.once("change", listener);
      await deadline.until(changed);
      changes.off("change", listener);
    },
    end: () => clearTimeout(timer),
  };
  return deadline;
}
