/** Runs the calls of one worker on the store of the primary process. */
import { StoreError } from "../errors.js";
import type { RunOptions, Store, Unsubscribe } from "../store.js";
import { type IpcEnd, type StoreAnswer, type StoreCall, sendOn } from "./messages.js";

/** Serves until the worker disconnects. */
export function serveStore(store: Store, worker: IpcEnd): void {
  /** One per channel: the worker distributes messages to its handlers. */
  const subscriptions = new Map<string, Unsubscribe>();
  let stopped = false;

  /** Replies to a worker that has exited are dropped. */
  const reply = (message: StoreAnswer) => sendOn(worker, message);

  const methods = {
    run: store.run,
    publish: store.publish,
    inspect: store.inspect,
    async subscribe(channel: string, options: RunOptions): Promise<void> {
      if (subscriptions.has(channel)) return;
      const leave = await store.subscribe(channel, (message) => reply({ store: "message", channel, message }), options);
      // Meanwhile the worker may have exited or subscribed a second time.
      if (stopped || subscriptions.has(channel)) leave();
      else subscriptions.set(channel, leave);
    },
    async unsubscribe(channel: string): Promise<void> {
      subscriptions.get(channel)?.();
      subscriptions.delete(channel);
    },
  };

  function onMessage(message: unknown): void {
    const { store: kind, id, method, args } = (message ?? {}) as StoreCall;
    if (kind !== "call") return;
    const call = methods[method] as (...args: unknown[]) => Promise<unknown>;
    call(...args).then(
      (value) => reply({ store: "answer", id, value: value ?? null }),
      (error: unknown) => reply({ store: "failure", id, ...failureOf(error) }),
    );
  }

  worker.on("message", onMessage);
  worker.on("disconnect", () => {
    stopped = true;
    worker.off("message", onMessage);
    for (const leave of subscriptions.values()) leave();
    subscriptions.clear();
  });
}

function failureOf(error: unknown): Pick<StoreError, "kind" | "message"> {
  const { kind, message } =
    error instanceof StoreError ? error : new StoreError("script", error instanceof Error ? error.message : "unknown");
  return { kind, message: message.replace(`store ${kind}: `, "") };
}
