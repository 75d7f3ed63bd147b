/** The deadline of one call, and the error for the caller when it is reached. */
import type { EventEmitter } from "node:events";
import { replyDeadline } from "../../shared/reply-timer.js";
import { StoreError } from "../errors.js";
import { reasonOf } from "./redis-errors.js";

export type Deadline = ReturnType<typeof createDeadline>;

/** @param obstacle the current problem, used when no attempt has failed yet */
export function createDeadline(ms: number, obstacle?: () => StoreError | undefined) {
  const listeners: (() => void)[] = [];
  const cancel = replyDeadline(ms, () => {
    deadline.over = true;
    for (const expired of listeners) expired();
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
      return new Promise((resolve, reject) => {
        const expired = () => reject(deadline.error());
        work.then(resolve, reject);
        if (deadline.over) expired();
        else listeners.push(expired);
      });
    },
    /** Resolves with the event, at the latest at the deadline. */
    until(event: Promise<unknown>): Promise<void> {
      if (deadline.over) return Promise.resolve();
      return new Promise((resolve, reject) => {
        listeners.push(resolve);
        event.then(() => resolve(), reject);
      });
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
    end: cancel,
  };
  return deadline;
}
