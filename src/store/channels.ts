/** Channel subscriptions of this process. A handler that throws does not affect the others or the store. */
import { EventEmitter } from "node:events";
import type { MessageHandler, Unsubscribe } from "./store.js";

export type Channels = ReturnType<typeof createChannels>;

export function createChannels() {
  const events = new EventEmitter().setMaxListeners(0);

  return {
    /** The same function can subscribe twice and unsubscribe once. Unsubscribing also holds for a message underway. */
    add(channel: string, handler: MessageHandler): Unsubscribe {
      let active = true;
      const listener = (message: string) => active && call(handler, message);
      events.on(channel, listener);
      return () => {
        active = false;
        events.off(channel, listener);
      };
    },
    has: (channel: string) => events.listenerCount(channel) > 0,
    /** Channels with at least one handler. */
    names: () => events.eventNames() as string[],
    deliver: (channel: string, message: string) => void events.emit(channel, message),
    clear: () => void events.removeAllListeners(),
  };
}

function call(handler: MessageHandler, message: string): void {
  try {
    const result: unknown = handler(message);
    if (result instanceof Promise) result.catch(warn);
  } catch (error) {
    warn(error);
  }
}

function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error));
}
