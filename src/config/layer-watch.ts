/** Notices that the layer in the store may have changed: by messages, and by looking now and then, as messages get lost. */
import type { Clock } from "../shared/clock.js";
import type { Unsubscribe } from "../store/store.js";
import type { LayerStore } from "./layer-store.js";

export interface LayerWatchOptions {
  layers: Pick<LayerStore, "isOther" | "subscribe">;
  clock: Clock;
  log: { debug(fields: Record<string, unknown>, message: string): void };
  /** The revision that was last read. */
  seenRevision(): number;
  /** Another revision stands in the store. */
  changed(): void;
  /** Another node has a new configuration, from wherever. */
  told(): void;
}

/** Makes up for messages that nobody heard. */
const LOOK_MS = 5_000;
const LISTEN_AGAIN_MS = 1_000;

export function watchLayer({ layers, clock, log, seenRevision, changed, told }: LayerWatchOptions): Unsubscribe {
  let closed = false;
  let leave: Unsubscribe = () => {};
  let stopLooking = clock.after(0, () => void look());
  let stopWaiting = () => {};
  listen();

  async function look(): Promise<void> {
    try {
      if ((await layers.isOther(seenRevision())) && !closed) changed();
    } catch (error) {
      log.debug({ err: error }, "the store was not asked for its layer");
    }
    if (!closed) stopLooking = clock.after(LOOK_MS, () => void look());
  }

  function hear(): void {
    if (!closed) told();
  }

  function listen(): void {
    layers.subscribe(hear).then(
      (unsubscribe) => {
        leave = unsubscribe;
        if (closed) leave();
        // What was said before anybody here listened.
        else hear();
      },
      (error: unknown) => {
        log.debug({ err: error }, "changes of the configuration are not heard");
        if (!closed) stopWaiting = clock.after(LISTEN_AGAIN_MS, listen);
      },
    );
  }

  return () => {
    closed = true;
    stopLooking();
    stopWaiting();
    leave();
  };
}
