/** One call to Redis, a function or a message: sent, retried unchanged where that can help, and ended by its deadline. */
import { setTimeout as pause } from "node:timers/promises";
import type { RedisValue } from "../../scripts/redis-api.js";
import { closedError, StoreError } from "../errors.js";
import { type Client, connectionTo, serverOf } from "./client.js";
import { createDeadline, type Deadline } from "./deadline.js";
import type { Gate } from "./gate.js";
import type { LibraryLoader } from "./library.js";
import { classify, isFunctionMissing } from "./redis-errors.js";

const MAX_ATTEMPTS = 10;
const MAX_BACK_OFF_MS = 200;

/** @param maxInFlight per server, so that one stopped node of a cluster does not block calls to the others */
export function createCaller(client: Client, gate: Gate, library: LibraryLoader, maxInFlight: number) {
  /**
   * By server. A call is in flight until Redis has replied or the connection is lost, even after its deadline: otherwise
   * calls to a stopped Redis would accumulate without limit.
   */
  const inFlight = new Map<string, Set<Promise<unknown>>>();

  const callsInFlight = () => [...inFlight.values()].flatMap((calls) => [...calls]);

  async function within(server: string, deadlineMs: number, attempt: () => Promise<unknown>): Promise<unknown> {
    const calls = inFlight.get(server) ?? new Set();
    if (calls.size >= maxInFlight) throw new StoreError("overloaded", `too many calls in flight to Redis ${server}`);
    const deadline = createDeadline(deadlineMs, gate.failure);
    const attempts: Promise<unknown> = retry(attempt, deadline).finally(() => calls.delete(attempts));
    inFlight.set(server, calls.add(attempts));
    return deadline.race(attempts).finally(deadline.end);
  }

  async function retry(attempt: () => Promise<unknown>, deadline: Deadline): Promise<unknown> {
    for (let count = 1; ; count++) {
      await gate.untilOpen(deadline);
      try {
        deadline.awaitingReply = true;
        return await attempt();
      } catch (thrown) {
        deadline.awaitingReply = false;
        const { error, retry } = classify(thrown);
        if (gate.isClosed()) throw closedError(error);
        if (deadline.over || !retry || count === MAX_ATTEMPTS) throw error;
        deadline.reason = error;
        await deadline.until(pause(backOff(count)));
      }
    }
  }

  return {
    fcall(name: string, keys: string[], args: RedisValue[], deadlineMs: number): Promise<unknown> {
      const server = serverOf(client, keys[0]);
      const send = () => client.fcall(name, keys.length, ...keys, ...args);
      return within(server, deadlineMs, async () => {
        try {
          return await send();
        } catch (error) {
          if (!isFunctionMissing(error)) throw error;
          await library.reload(connectionTo(client, server));
          return await send();
        }
      });
    },
    async publish(channel: string, message: string, deadlineMs: number): Promise<void> {
      // The first attempt always uses the same server, so that messages stay in order.
      const server = serverOf(client, channel);
      let sender: Client = connectionTo(client, server) ?? client;
      await within(server, deadlineMs, () => {
        const own = sender;
        sender = client;
        return own.publish(channel, message);
      });
    },
    inFlight: () => callsInFlight().length,
    /** Resolves when no calls are in flight, at the latest after `withinMs`. */
    async idle(withinMs: number): Promise<void> {
      const deadline = createDeadline(withinMs);
      await deadline.until(Promise.allSettled(callsInFlight())).finally(deadline.end);
    },
  };
}

function backOff(count: number): number {
  return Math.min(MAX_BACK_OFF_MS, 10 * 2 ** count) * (0.5 + Math.random() / 2);
}
