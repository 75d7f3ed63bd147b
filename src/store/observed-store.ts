/** Reports every store call with its outcome and duration to an observer. */

import type { ScriptName } from "../scripts/catalog.js";
import { replyTimer, systemClock } from "../shared/clock.js";
import { StoreError, type StoreErrorKind } from "./errors.js";
import type { Store } from "./store.js";

/** Script names and the other operations of a store. */
export type StoreCommand = ScriptName | "publish" | "subscribe" | "inspect";

export type StoreOutcome = "ok" | StoreErrorKind;

export interface StoreObserver {
  /** Must not throw. */
  called(command: StoreCommand, outcome: StoreOutcome, seconds: number): void;
}

export function observeStore(store: Store, observer: StoreObserver, clock = systemClock): Store {
  /** Returns the promise of the store itself, so that the caller does not wait an extra turn. */
  function observed<T>(command: StoreCommand, call: () => Promise<T>): Promise<T> {
    const timer = replyTimer(clock);
    const reply = call();
    const ended = (outcome: StoreOutcome) => observer.called(command, outcome, timer.end() / 1000);
    reply.then(
      () => ended("ok"),
      (error: unknown) => ended(error instanceof StoreError ? error.kind : "script"),
    );
    return reply;
  }

  return {
    kind: store.kind,
    run: (script, keys, args, options) => observed(script, () => store.run(script, keys, args, options)),
    publish: (channel, message, options) => observed("publish", () => store.publish(channel, message, options)),
    subscribe: (channel, handler, options) => observed("subscribe", () => store.subscribe(channel, handler, options)),
    inspect: () => observed("inspect", () => store.inspect()),
    close: () => store.close(),
  };
}
