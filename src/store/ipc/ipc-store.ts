/** The worker's side: a store like any other, whose calls run on the one store in the primary process. */
import { createChannels } from "../channels.js";
import { StoreError } from "../errors.js";
import { checkReply } from "../reply.js";
import type { Store, StoreFacts } from "../store.js";
import { type IpcEnd, isStoreMessage, type StoreAnswer, type StoreCall, sendOn } from "./messages.js";

export interface IpcStoreOptions {
  /** For one call. */
  deadlineMs?: number;
  /** Calls that the primary has not answered yet. */
  maxInFlight?: number;
}

interface Pending {
  resolve(value: unknown): void;
  reject(error: StoreError): void;
}

/** Calls are numbered throughout the process: whoever else speaks on the line never mistakes an answer for its own. */
let lastId = 0;

/** A call without the number that it gets when it is sent. */
type Unnumbered<C> = C extends { id: number } ? Omit<C, "id"> : never;

export function createIpcStore(primary: IpcEnd, options: IpcStoreOptions = {}): Store {
  const { deadlineMs = 1_000, maxInFlight = 10_000 } = options;
  const pending = new Map<number, Pending>();
  const channels = createChannels();
  let closed = false;

  function ask(call: Unnumbered<StoreCall>, own = deadlineMs): Promise<unknown> {
    if (closed) return Promise.reject(new StoreError("closed", "the store was closed"));
    if (pending.size >= maxInFlight) {
      return Promise.reject(new StoreError("overloaded", `${pending.size} calls wait for the primary process`));
    }
    const id = ++lastId;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        pending.delete(id);
        reject(new StoreError("timeout", `the primary process did not answer within ${own} ms`));
      }, own);
      const done = <T>(settle: (value: T) => void) => {
        return (value: T) => {
          clearTimeout(timer);
          pending.delete(id);
          settle(value);
        };
      };
      const waiting: Pending = { resolve: done(resolve), reject: done(reject) };
      pending.set(id, waiting);
      sendOn(primary, { ...call, id } as StoreCall, ({ message }) => {
        waiting.reject(new StoreError("unavailable", `the primary process cannot be reached: ${message}`));
      });
    });
  }

  function heard(message: unknown): void {
    if (!isStoreMessage(message)) return;
    const answer = message as StoreAnswer;
    if (answer.store === "message") channels.deliver(answer.channel, answer.message);
    // An answer that comes after its deadline is nobody's any more.
    else if (answer.store === "answer") pending.get(answer.id)?.resolve(answer.value);
    else if (answer.store === "failure") pending.get(answer.id)?.reject(new StoreError(answer.kind, answer.message));
  }

  function failAll(kind: "unavailable" | "closed", reason: string): void {
    for (const { reject } of [...pending.values()]) reject(new StoreError(kind, reason));
  }

  const gone = () => failAll("unavailable", "the primary process is gone");
  primary.on("message", heard);
  primary.on("disconnect", gone);

  return {
    kind: "embedded",
    hashTags: false,
    async run(script, keys, args, { deadlineMs: own = deadlineMs } = {}) {
      // As text, which is what scripts get: JSON would make nothing of NaN.
      const call = { store: "run" as const, script, keys, args: args.map(String), deadlineMs: own };
      return checkReply(script, await ask(call, own));
    },
    async publish(channel, message, { deadlineMs: own = deadlineMs } = {}) {
      await ask({ store: "publish", channel, message, deadlineMs: own }, own);
    },
    async subscribe(channel, handler, { deadlineMs: own = deadlineMs } = {}) {
      const leave = channels.add(channel, handler);
      const leaveAll = () => {
        leave();
        if (!channels.has(channel) && !closed) sendOn(primary, { store: "unsubscribe", channel }, () => {});
      };
      try {
        await ask({ store: "subscribe", channel, deadlineMs: own }, own);
      } catch (error) {
        leaveAll();
        throw error;
      }
      return leaveAll;
    },
    inspect: async () => (await ask({ store: "inspect" })) as StoreFacts,
    async close() {
      if (closed) return;
      closed = true;
      primary.off("message", heard);
      primary.off("disconnect", gone);
      for (const channel of channels.names()) sendOn(primary, { store: "unsubscribe", channel }, () => {});
      channels.clear();
      failAll("closed", "the store was closed");
    },
  };
}
