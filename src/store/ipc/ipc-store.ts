/** The store of a worker process: its calls run on the store of the primary process. */
import { replyDeadline } from "../../shared/reply-timer.js";
import { createChannels } from "../channels.js";
import { closedError, StoreError } from "../errors.js";
import type { RedisStoreOptions } from "../redis/redis-store.js";
import { checkReply } from "../reply.js";
import type { Store, StoreFacts } from "../store.js";
import { type IpcEnd, type StoreAnswer, type StoreCall, sendOn } from "./messages.js";

/** The default deadline of a call, and the maximum number of calls without a reply. */
type IpcStoreOptions = Pick<RedisStoreOptions, "deadlineMs" | "maxInFlight">;

/** Ids are unique in the process, so that other users of the channel cannot confuse replies. */
let lastId = 0;

export function createIpcStore(primary: IpcEnd, options: IpcStoreOptions = {}): Store {
  const { deadlineMs = 1_000, maxInFlight = 10_000 } = options;
  const pending = new Map<number, { resolve(value: unknown): void; reject(error: StoreError): void }>();
  const channels = createChannels();
  let closed = false;

  async function ask(ownMs: number, method: StoreCall["method"], ...args: unknown[]): Promise<unknown> {
    if (closed) throw closedError();
    if (pending.size >= maxInFlight) {
      throw new StoreError("overloaded", `${pending.size} calls are waiting for the primary process`);
    }
    const id = ++lastId;
    let cancel = () => {};
    const answer = new Promise((resolve, reject) => {
      const fail = (kind: "timeout" | "unavailable", why: string) => reject(new StoreError(kind, why));
      cancel = replyDeadline(ownMs, () => fail("timeout", `no reply from the primary process within ${ownMs} ms`));
      pending.set(id, { resolve, reject });
      sendOn(primary, { store: "call", id, method, args }, ({ message }) =>
        fail("unavailable", `the primary process cannot be reached: ${message}`),
      );
    });
    return answer.finally(() => {
      cancel();
      pending.delete(id);
    });
  }

  function onMessage(message: unknown): void {
    const answer = (message ?? {}) as StoreAnswer;
    if (answer.store === "message") channels.deliver(answer.channel, answer.message);
    // A reply after the deadline has no pending call.
    else if (answer.store === "answer") pending.get(answer.id)?.resolve(answer.value);
    else if (answer.store === "failure") pending.get(answer.id)?.reject(new StoreError(answer.kind, answer.message));
  }

  function failAll(error: StoreError): void {
    for (const { reject } of pending.values()) reject(error);
  }

  function unsubscribe(channel: string): void {
    sendOn(primary, { store: "call", id: ++lastId, method: "unsubscribe", args: [channel] });
  }

  const onDisconnect = () => failAll(new StoreError("unavailable", "the primary process has exited"));
  primary.on("message", onMessage);
  primary.on("disconnect", onDisconnect);

  return {
    kind: "embedded",
    async run(script, keys, args, { deadlineMs: ownMs = deadlineMs } = {}) {
      // As strings, which scripts expect; JSON cannot represent NaN.
      return checkReply(script, await ask(ownMs, "run", script, keys, args.map(String), { deadlineMs: ownMs }));
    },
    async publish(channel, message, { deadlineMs: ownMs = deadlineMs } = {}) {
      await ask(ownMs, "publish", channel, message, { deadlineMs: ownMs });
    },
    async subscribe(channel, handler, { deadlineMs: ownMs = deadlineMs } = {}) {
      const remove = channels.add(channel, handler);
      const leave = () => {
        remove();
        if (!channels.has(channel) && !closed) unsubscribe(channel);
      };
      try {
        await ask(ownMs, "subscribe", channel, { deadlineMs: ownMs });
      } catch (error) {
        leave();
        throw error;
      }
      return leave;
    },
    inspect: async () => (await ask(deadlineMs, "inspect")) as StoreFacts,
    async close() {
      if (closed) return;
      closed = true;
      primary.off("message", onMessage);
      primary.off("disconnect", onDisconnect);
      for (const channel of channels.names()) unsubscribe(channel);
      channels.clear();
      failAll(closedError());
    },
  };
}
