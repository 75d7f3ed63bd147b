/** One call to Redis, a function or a message: sent, retried unchanged where that can help, and ended by its deadline. */
import type { Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { Command } from "ioredis";
import type { RedisValue } from "../../scripts/redis-api.js";
import { closedError, StoreError } from "../errors.js";
import { type Client, serverFinder } from "./client.js";
import { createDeadline, type Deadline } from "./deadline.js";
import type { Gate } from "./gate.js";
import type { LibraryLoader } from "./library.js";
import { classify, isFunctionMissing, isRedirection } from "./redis-errors.js";

const MAX_ATTEMPTS = 10;
const MAX_BACK_OFF_MS = 200;

/** @param maxInFlight per server, so that one stopped node of a cluster does not block calls to the others */
export function createCaller(client: Client, gate: Gate, library: LibraryLoader, maxInFlight: number) {
  const { serverOf, connectionTo } = serverFinder(client);
  /**
   * By server. A call is in flight until Redis has replied or the connection is lost, even after its deadline: otherwise
   * calls to a stopped Redis would accumulate without limit.
   */
  const inFlight = new Map<string, Set<Promise<unknown>>>();
  /** Connections whose calls of this turn are sent together. */
  const collecting = new Set<Writable>();

  const callsInFlight = () => [...inFlight.values()].flatMap((calls) => [...calls]);

  function within(server: string, deadlineMs: number, attempt: () => Promise<unknown>): Promise<unknown> {
    let calls = inFlight.get(server);
    if (calls === undefined) {
      calls = new Set();
      inFlight.set(server, calls);
    }
    const own = calls;
    if (own.size >= maxInFlight) {
      return Promise.reject(new StoreError("overloaded", `too many calls in flight to Redis ${server}`));
    }
    const deadline = createDeadline(deadlineMs, gate.failure);
    const attempts = retry(attempt, deadline);
    own.add(attempts);
    const ended = () => {
      own.delete(attempts);
      deadline.end();
    };
    attempts.then(ended, ended);
    return deadline.race(attempts);
  }

  async function retry(attempt: () => Promise<unknown>, deadline: Deadline): Promise<unknown> {
    for (let count = 1; ; count++) {
      if (!gate.isOpen()) await gate.untilOpen(deadline);
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

  /** Calls of the same turn of the event loop to the same server are written at once: each write costs a system call. */
  function collect(stream: Writable): void {
    if (collecting.has(stream)) return;
    collecting.add(stream);
    stream.cork();
    process.nextTick(() => {
      collecting.delete(stream);
      stream.uncork();
    });
  }

  return {
    fcall(name: string, keys: string[], args: RedisValue[], deadlineMs: number): Promise<unknown> {
      const server = serverOf(keys[0]);
      const words = [name, keys.length, ...keys, ...args];
      let direct = true;
      const send = () => {
        const command = new Command("fcall", words, { replyEncoding: "utf8" });
        const connection = direct ? connectionTo(server) : undefined;
        direct = false;
        if (connection?.status !== "ready") return client.sendCommand(command) as Promise<unknown>;
        collect(connection.stream);
        return connection.sendCommand(command) as Promise<unknown>;
      };
      return within(server, deadlineMs, () =>
        send().catch(async (error: unknown) => {
          if (isFunctionMissing(error)) await library.reload(connectionTo(server));
          else if (!isRedirection(error)) throw error;
          return send();
        }),
      );
    },
    async publish(channel: string, message: string, deadlineMs: number): Promise<void> {
      // The first attempt always uses the same server, so that messages stay in order.
      const server = serverOf(channel);
      let sender: Client = connectionTo(server) ?? client;
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
