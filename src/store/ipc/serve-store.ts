/** The primary's side: runs the calls of one worker on the store that all workers share. */
import { StoreError } from "../errors.js";
import type { Store, Unsubscribe } from "../store.js";
import { type IpcEnd, isStoreMessage, type StoreAnswer, type StoreCall, sendOn } from "./messages.js";

/** Serves until the worker is gone, or until told otherwise. */
export function serveStore(store: Store, worker: IpcEnd): () => void {
  /** One per channel: the worker spreads messages among its own listeners. */
  const subscriptions = new Map<string, Unsubscribe>();
  let stopped = false;

  /** A worker that is gone needs no answer. */
  const answer = (message: StoreAnswer) => sendOn(worker, message, () => {});

  async function carryOut(call: Exclude<StoreCall, { store: "unsubscribe" }>): Promise<unknown> {
    if (call.store === "inspect") return store.inspect();
    const deadline = { deadlineMs: call.deadlineMs };
    if (call.store === "run") return store.run(call.script, call.keys, call.args, deadline);
    if (call.store === "publish") return store.publish(call.channel, call.message, deadline);
    return subscribe(call.channel, deadline);
  }

  async function subscribe(channel: string, deadline: { deadlineMs: number }): Promise<void> {
    if (subscriptions.has(channel)) return;
    const tell = (message: string) => answer({ store: "message", channel, message });
    const leave = await store.subscribe(channel, tell, deadline);
    // While the store was asked, the worker may have gone, or asked a second time.
    if (stopped || subscriptions.has(channel)) leave();
    else subscriptions.set(channel, leave);
  }

  function heard(message: unknown): void {
    if (!isStoreMessage(message)) return;
    const call = message as StoreCall;
    if (call.store === "unsubscribe") {
      subscriptions.get(call.channel)?.();
      subscriptions.delete(call.channel);
      return;
    }
    const { id } = call;
    carryOut(call).then(
      (value) => answer({ store: "answer", id, value: value ?? null }),
      (error: unknown) => answer({ store: "failure", id, ...failureOf(error) }),
    );
  }

  function stop(): void {
    stopped = true;
    worker.off("message", heard);
    worker.off("disconnect", stop);
    for (const leave of subscriptions.values()) leave();
    subscriptions.clear();
  }

  worker.on("message", heard);
  worker.on("disconnect", stop);
  return stop;
}

function failureOf(error: unknown): Pick<StoreError, "kind" | "message"> {
  const { kind, message } =
    error instanceof StoreError ? error : new StoreError("script", error instanceof Error ? error.message : "unknown");
  return { kind, message: message.replace(`store ${kind}: `, "") };
}
