/** The store of a worker process: its calls run on the store of the primary process. */
import { createChannels } from "../channels.js";
import { StoreError } from "../errors.js";
import { checkReply } from "../reply.js";
import type { Store, StoreFacts } from "../store.js";
import { type IpcEnd, isStoreMessage, type StoreAnswer, type StoreCall, sendOn } from "./messages.js";

export interface IpcStoreOptions {
  /** Default deadline of a call. */
  deadlineMs?: number;
  /** Maximum number of calls without a reply. */
  maxInFlight?: number;
}

interface Pending {
  resolve(value: unknown): void;
  reject(error: StoreError): void;
}

/** Ids are unique in the process, so that other users of the channel cannot confuse replies. */
let lastId = 0;

/** A call before it gets its id. */
type WithoutId<C> = C extends { id: number } ? Omit<C, "id"> : never;

export function createIpcStore(primary: IpcEnd, options: IpcStoreOptions = {}): Store {
  const { deadlineMs = 1_000, maxInFlight = 10_000 } = options;
  const pending = new Map<number, Pending>();
  const channels = createChannels();
  let closed = false;

  function ask(call: WithoutId<StoreCall>, own = deadlineMs): Promise<unknown> {
    if (closed) return Promise.reject(new StoreError("closed", "the store was closed"));
    if (pending.size >= maxInFlight) {
      return Promise.reject(new StoreError("overloaded", `${pending.size} calls are waiting for the primary process`));
    }
    const id = ++lastId;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        pending.delete(id);
        reject(new StoreError("timeout", `no reply from the primary process within ${own} ms`));
      }, own);
      const done = <T>(finish: (value: T) => void) => {
        return (value: T) => {
          clearTimeout(timer);
          pending.delete(id);
          finish(value);
        };
      };
      const waiting: Pending = { resolve: done(resolve), reject: done(reject) };
      pending.set(id, waiting);
      sendOn(primary, { ...call, id } as StoreCall, ({ message }) => {
        waiting.reject(new StoreError("unavailable", `the primary process cannot be reached: ${message}`));
      });
    });
  }

  function onMessage(message: unknown): void {
    if (!isStoreMessage(message)) return;
    const answer = message as StoreAnswer;
    if (answer.store === "message") channels.deliver(answer.channel, answer.message);
    // A reply after the deadline has no pending call.
    else if (answer.store === "answer") pending.get(answer.id)?.resolve(answer.value);
    else if (answer.store === "failure") pending.get(answer.id)?.reject(new StoreError(answer.kind, answer.message));
  }

  function failAll(kind: "unavailable" | "closed", reason: string): void {
    for (const { reject } of [...pending.values()]) reject(new StoreError(kind, reason));
  }

  const onDisconnect = () => failAll("unavailable", "the primary process has exited");
  primary.on("message", onMessage);
  primary.on("disconnect", onDisconnect);

  return {
    kind: "embedded",
    hashTags: false,
    async run(script, keys, args, { deadlineMs: own = deadlineMs } = {}) {
      // As strings, which scripts expect; JSON cannot represent NaN.
      const call = { store: "run" as const, script, keys, args: args.map(String), deadlineMs: own };
      return checkReply(script, await ask(call, own));
    },
    async publish(channel, message, { deadlineMs: own = deadlineMs } = {}) {
      await ask({ store: "publish", channel, message, deadlineMs: own }, own);
    },
    async subscribe(channel, handler, { deadlineMs: own = deadlineMs } = {}) {
      const remove = channels.add(channel, handler);
      const unsubscribe = () => {
        remove();
        if (!channels.has(channel) && !closed) sendOn(primary, { store: "unsubscribe", channel }, () => {});
      };
      try {
        await ask({ store: "subscribe", channel, deadlineMs: own }, own);
      } catch (error) {
        unsubscribe();
        throw error;
      }
      return unsubscribe;
    },
    inspect: async () => (await ask({ store: "inspect" })) as StoreFacts,
    async close() {
      if (closed) return;
      closed = true;
      primary.off("message", onMessage);
      primary.off("disconnect", onDisconnect);
      for (const channel of channels.names()) sendOn(primary, { store: "unsubscribe", channel }, () => {});
      channels.clear();
      failAll("closed", "the store was closed");
    },
  };
}
