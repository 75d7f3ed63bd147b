/** Channel subscriptions of this process. A handler that throws does not affect the others or the store. */
import type { MessageHandler, Unsubscribe } from "./store.js";

export interface Channels {
  add(channel: string, handler: MessageHandler): Unsubscribe;
  has(channel: string): boolean;
  /** Channels with at least one handler. */
  names(): string[];
  deliver(channel: string, message: string): void;
  clear(): void;
}

export function createChannels(): Channels {
  // One entry per subscription, so that the same function can subscribe twice and unsubscribe once.
  const listeners = new Map<string, Set<{ handler: MessageHandler }>>();

  return {
    add(channel, handler) {
      const entry = { handler };
      const own = listeners.get(channel) ?? new Set();
      listeners.set(channel, own.add(entry));
      return () => {
        own.delete(entry);
        if (own.size === 0 && listeners.get(channel) === own) listeners.delete(channel);
      };
    },
    has: (channel) => listeners.has(channel),
    names: () => [...listeners.keys()],
    deliver(channel, message) {
      const own = listeners.get(channel);
      // A copy: handlers added now get the next message. Handlers removed meanwhile get nothing.
      for (const entry of [...(own ?? [])]) if (own?.has(entry)) call(entry.handler, message);
    },
    clear() {
      for (const own of listeners.values()) own.clear();
      listeners.clear();
    },
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
