/** One call to Redis, a function or a message: sent, retried unchanged where that can help, and ended by its deadline. */
import type { RedisValue } from "../../scripts/redis-api.js";
import { StoreError } from "../errors.js";
import { type Client, connectionTo } from "./client.js";
import { createDeadline, type Deadline } from "./deadline.js";
import type { Gate } from "./gate.js";
import type { InFlight } from "./in-flight.js";
import type { LibraryLoader } from "./library.js";
import { classify, isFunctionMissing } from "./redis-errors.js";

export interface CallerOptions {
  client: Client;
  gate: Gate;
  inFlight: InFlight;
  library: LibraryLoader;
  /** The primary that probably serves the key: calls in flight are limited per server. */
  serverOf(key: string | undefined): string;
  /** While closing, calls that were accepted before are finished. */
  phase(): "open" | "closing" | "closed";
}

export interface Caller {
  fcall(name: string, keys: string[], args: RedisValue[], deadlineMs: number): Promise<unknown>;
  publish(channel: string, message: string, deadlineMs: number): Promise<void>;
  /** Resolves when a call could be sent; rejects with the reason when none can be sent in time. */
  ready(withinMs: number): Promise<void>;
}

const MAX_ATTEMPTS = 10;
const MAX_BACK_OFF_MS = 200;

export function createCaller({ client, gate, inFlight, library, serverOf, phase }: CallerOptions): Caller {
  async function within(server: string, deadlineMs: number, attempt: () => Promise<unknown>): Promise<unknown> {
    if (phase() !== "open") throw closedError();
    if (!inFlight.enter(server)) throw new StoreError("overloaded", `too many calls in flight to Redis ${server}`);
    const deadline = createDeadline(deadlineMs, gate.failure);
    // The call counts as in flight until Redis has replied or the connection is lost, even after its deadline:
    // otherwise calls to a stopped Redis would accumulate without limit.
    const attempts = retry(attempt, deadline).finally(() => inFlight.leave(server));
    try {
      return await deadline.race(attempts);
    } finally {
      deadline.end();
    }
  }

  async function retry(attempt: () => Promise<unknown>, deadline: Deadline): Promise<unknown> {
    for (let count = 1; ; count++) {
      await untilOpen(deadline);
      try {
        deadline.awaitingReply = true;
        return await attempt();
      } catch (thrown) {
        deadline.awaitingReply = false;
        const { error, retry } = classify(thrown);
        if (phase() === "closed") throw closedError(error);
        if (deadline.over || !retry || count === MAX_ATTEMPTS) throw error;
        deadline.reason = error;
        await deadline.pause(backOff(count));
      }
    }
  }

  async function untilOpen(deadline: Deadline): Promise<void> {
    for (;;) {
      if (deadline.over) throw deadline.error();
      if (phase() === "closed") throw closedError();
      const obstacle = gate.obstacle();
      if (obstacle === undefined) return;
      if (obstacle !== "wait") throw obstacle;
      await deadline.until((wake) => gate.wait(wake));
    }
  }

  return {
    fcall(name, keys, args, deadlineMs) {
      const server = serverOf(keys[0]);
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
    async publish(channel, message, deadlineMs) {
      // The first attempt always uses the same server, so that messages stay in order.
      const server = serverOf(channel);
      let sender: Client = connectionTo(client, server) ?? client;
      await within(server, deadlineMs, () => {
        const own = sender;
        sender = client;
        return own.publish(channel, message);
      });
    },
    async ready(withinMs) {
      const deadline = createDeadline(withinMs, gate.failure);
      try {
        await untilOpen(deadline);
      } finally {
        deadline.end();
      }
    },
  };
}

function backOff(count: number): number {
  return Math.min(MAX_BACK_OFF_MS, 10 * 2 ** count) * (0.5 + Math.random() / 2);
}

function closedError(cause?: StoreError): StoreError {
  return new StoreError("closed", "the store was closed", { cause });
}
