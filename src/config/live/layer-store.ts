/** Reads, writes and watches the configuration layer in the store, and notifies other nodes. */
import { configChannel, configKey, operationKey } from "../../core/keys.js";
import type { Clock } from "../../shared/clock.js";
import type { Log } from "../../shared/log.js";
import { InvalidArgument, StoreError } from "../../store/errors.js";
import { callOperation } from "../../store/operations.js";
import type { Store, Unsubscribe } from "../../store/store.js";
import { layerProblem, layerProblems, layerText, parseLayer } from "../layer.js";
import type { Problem } from "../problem.js";
import type { Section } from "../variables.js";

export interface StoredLayer {
  revision: number;
  config: Section;
}

/** The stored layer, or why it is invalid. */
export type ReadLayer = { layer: StoredLayer; revision: number } | { problems: Problem[]; revision: number };

export interface LayerWatchOptions {
  clock: Clock;
  log: Log;
  /** The last revision that was read. */
  seenRevision(): number;
  /** The revision in the store has changed. */
  changed(): void;
  /** Another node has a new configuration, from any source. */
  notified(): void;
}

const POLL_MS = 5_000;
const RESUBSCRIBE_MS = 1_000;
const ANY = -1;
/** Maximum of the store script. */
const MAX_BYTES = 1_048_576;
/** Revision of a layer that cannot be read. Never written. */
const UNREADABLE = -2;

export function createLayerStore(store: Pick<Store, "run" | "publish" | "subscribe">, clusterId: string, node: string) {
  const key = configKey(clusterId);
  const channel = configChannel(clusterId);

  async function ask(known: number): Promise<{ revision: number; text: string; fault?: string }> {
    try {
      const values = { known: String(known) };
      const { revision, config } = await callOperation(store, "config-read", { keys: { config: key }, values });
      return { revision, text: config };
    } catch (error) {
      if (error instanceof InvalidArgument && error.field === "config") {
        return { revision: UNREADABLE, text: "", fault: `is larger than ${MAX_BYTES} bytes` };
      }
      // The key has another type.
      if (!(error instanceof StoreError) || error.kind !== "script") throw error;
      return { revision: UNREADABLE, text: "", fault: `cannot be read: ${error.message}` };
    }
  }

  return {
    /** Rejects with a StoreError if the store does not answer. */
    async read(): Promise<ReadLayer> {
      const { revision, text, fault } = await ask(ANY);
      if (fault !== undefined) return { revision, problems: [layerProblem(fault)] };
      const { layer, problems } = parseLayer(text);
      return layer === undefined ? { revision, problems } : { revision, layer: { revision, config: layer } };
    },

    /** Problems of the layer itself, before it is written; undefined if there are none. */
    faults(config: Section): { problems: Problem[] } | undefined {
      const problems = layerProblems(config);
      if (problems.length > 0) return { problems };
      const bytes = layerText(config).length;
      if (bytes <= MAX_BYTES) return undefined;
      return { problems: [layerProblem(`has ${bytes} bytes; the maximum is ${MAX_BYTES}`)] };
    },

    /** Idempotent: the same operation id is executed once. */
    async write(config: Section, expected: number | undefined, operation: string) {
      const keys = { config: key, operation: operationKey(clusterId, operation) };
      const values = { expected: String(expected ?? ANY), config: layerText(config) };
      const { written, revision } = await callOperation(store, "config-write", { keys, values });
      return { written, revision };
    },

    publish(version: string): Promise<void> {
      const message = { type: "config_reload", version, timestamp: Math.floor(Date.now() / 1000), node };
      return store.publish(channel, JSON.stringify(message));
    },

    /** Detects changes by pub/sub messages, and by polling because messages can get lost. */
    watch({ clock, log, seenRevision, changed, notified }: LayerWatchOptions): Unsubscribe {
      const own = `"node":${JSON.stringify(node)}}`;
      let closed = false;
      let leave: Unsubscribe = () => {};
      let stopPolling = clock.after(0, () => void poll());
      let stopWaiting = () => {};
      listen();

      async function poll(): Promise<void> {
        try {
          const known = seenRevision();
          const { revision } = await ask(Math.max(known, ANY));
          if (revision !== known && !closed) changed();
        } catch (error) {
          log.debug({ err: error }, "cannot poll the configuration layer");
        }
        if (!closed) stopPolling = clock.after(POLL_MS, () => void poll());
      }

      /** The content of a message is not used. */
      function received(message = ""): void {
        if (!closed && !message.endsWith(own)) notified();
      }

      function listen(): void {
        store.subscribe(channel, received).then(
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
    },
  };
}
