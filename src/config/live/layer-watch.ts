/** Detects changes of the stored layer by pub/sub messages, and by polling because messages can get lost. */
import type { Clock } from "../../shared/clock.js";
import type { Unsubscribe } from "../../store/store.js";
import type { LayerStore } from "./layer-store.js";

export interface LayerWatchOptions {
  layers: Pick<LayerStore, "hasChanged" | "subscribe">;
  clock: Clock;
  log: { debug(fields: Record<string, unknown>, message: string): void };
  /** The last revision that was read. */
  seenRevision(): number;
  /** The revision in the store has changed. */
  changed(): void;
  /** Another node has a new configuration, from any source. */
  notified(): void;
}

const POLL_MS = 5_000;
const RESUBSCRIBE_MS = 1_000;

export function watchLayer({ layers, clock, log, seenRevision, changed, notified }: LayerWatchOptions): Unsubscribe {
  let closed = false;
  let leave: Unsubscribe = () => {};
  let stopPolling = clock.after(0, () => void poll());
  let stopWaiting = () => {};
  listen();

  async function poll(): Promise<void> {
    try {
      if ((await layers.hasChanged(seenRevision())) && !closed) changed();
    } catch (error) {
      log.debug({ err: error }, "cannot poll the configuration layer");
    }
    if (!closed) stopPolling = clock.after(POLL_MS, () => void poll());
  }

  function received(): void {
    if (!closed) notified();
  }

  function listen(): void {
    layers.subscribe(received).then(
      (unsubscribe) => {
        leave = unsubscribe;
        if (closed) leave();
        // Messages before the subscription were missed.
        else received();
      },
      (error: unknown) => {
        log.debug({ err: error }, "cannot subscribe to configuration changes");
        if (!closed) stopWaiting = clock.after(RESUBSCRIBE_MS, listen);
      },
    );
  }

  return () => {
    closed = true;
    stopPolling();
    stopWaiting();
    leave();
  };
}
