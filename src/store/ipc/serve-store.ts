/** Runs the calls of one worker on the store of the primary process. */
import { StoreError } from "../errors.js";
import type { Store, Unsubscribe } from "../store.js";
import { type IpcEnd, isStoreMessage, type StoreAnswer, type StoreCall, sendOn } from "./messages.js";

/** Serves until the worker disconnects or the returned function is called. */
export function serveStore(store: Store, worker: IpcEnd): () => void {
  /** One per channel: the worker distributes messages to its handlers. */
  const subscriptions = new Map<string, Unsubscribe>();
  let stopped = false;

  /** Replies to a worker that has exited are dropped. */
  const reply = (message: StoreAnswer) => sendOn(worker, message, () => {});

  async function execute(call: Exclude<StoreCall, { store: "unsubscribe" }>): Promise<unknown> {
    if (call.store === "inspect") return store.inspect();
    const deadline = { deadlineMs: call.deadlineMs };
    if (call.store === "run") return store.run(call.script, call.keys, call.args, deadline);
    if (call.store === "publish") return store.publish(call.channel, call.message, deadline);
    return subscribe(call.channel, deadline);
  }

  async function subscribe(channel: string, deadline: { deadlineMs: number }): Promise<void> {
    if (subscriptions.has(channel)) return;
    const forward = (message: string) => reply({ store: "message", channel, message });
    const leave = await store.subscribe(channel, forward, deadline);
    // Meanwhile the worker may have exited or subscribed a second time.
    if (stopped || subscriptions.has(channel)) leave();
    else subscriptions.set(channel, leave);
  }

  function onMessage(message: unknown): void {
    if (!isStoreMessage(message)) return;
    const call = message as StoreCall;
    if (call.store === "unsubscribe") {
      subscriptions.get(call.channel)?.();
      subscriptions.delete(call.channel);
      return;
    }
    const { id } = call;
    execute(call).then(
      (value) => reply({ store: "answer", id, value: value ?? null }),
      (error: unknown) => reply({ store: "failure", id, ...failureOf(error) }),
    );
  }

  function stop(): void {
    stopped = true;
    worker.off("message", onMessage);
    worker.off("disconnect", stop);
    for (const leave of subscriptions.values()) leave();
    subscriptions.clear();
  }

  worker.on("message", onMessage);
  worker.on("disconnect", stop);
  return stop;
}

function failureOf(error: unknown): Pick<StoreError, "kind" | "message"> {
  const { kind, message } =
    error instanceof StoreError ? error : new StoreError("script", error instanceof Error ? error.message : "unknown");
  return { kind, message: message.replace(`store ${kind}: `, "") };
}
