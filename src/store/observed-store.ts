/** A store whose calls are told to an observer: which, how it ended, how long it took. Answers are passed on as they are. */
import type { ScriptName } from "../scripts/catalog.js";
import { StoreError, type StoreErrorKind } from "./errors.js";
import type { Store } from "./store.js";

/** Scripts by their names, and what else a store can be asked. */
export type StoreCommand = ScriptName | "publish" | "subscribe" | "inspect";

export type StoreOutcome = "ok" | StoreErrorKind;

export interface StoreObserver {
  /** Must not throw. */
  called(command: StoreCommand, outcome: StoreOutcome, seconds: number): void;
}

/** @param now milliseconds that never go back */
export function observeStore(
  store: Store,
  observer: StoreObserver,
  now: () => number = () => performance.now(),
): Store {
  /** Looks on: the caller gets the very promise of the store, and not a turn later. */
  function observed<T>(command: StoreCommand, call: () => Promise<T>): Promise<T> {
    const started = now();
    const answer = call();
    const ended = (outcome: StoreOutcome) => observer.called(command, outcome, (now() - started) / 1000);
    answer.then(
      () => ended("ok"),
      (error: unknown) => ended(error instanceof StoreError ? error.kind : "script"),
    );
    return answer;
  }

  return {
    kind: store.kind,
    hashTags: store.hashTags,
    run: (script, keys, args, options) => observed(script, () => store.run(script, keys, args, options)),
    publish: (channel, message, options) => observed("publish", () => store.publish(channel, message, options)),
    subscribe: (channel, handler, options) => observed("subscribe", () => store.subscribe(channel, handler, options)),
    inspect: () => observed("inspect", () => store.inspect()),
    close: () => store.close(),
  };
}
