/** Who in this process listens to which channel. A handler that throws harms neither the others nor the store. */
import type { MessageHandler, Unsubscribe } from "./store.js";

export interface Channels {
  add(channel: string, handler: MessageHandler): Unsubscribe;
  has(channel: string): boolean;
  /** Those that somebody listens to. */
  names(): string[];
  deliver(channel: string, message: string): void;
  clear(): void;
}

export function createChannels(): Channels {
  // Each subscription is an entry of its own, so that one function may listen twice and leave once.
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
      // Over a copy: who begins to listen now hears the next message. Who was just told to stop hears nothing.
      for (const entry of [...(own ?? [])]) if (own?.has(entry)) tell(entry.handler, message);
    },
    clear() {
      for (const own of listeners.values()) own.clear();
      listeners.clear();
    },
  };
}

function tell(handler: MessageHandler, message: string): void {
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
