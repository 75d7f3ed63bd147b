/** One call, of a script or of a message: sent, repeated unchanged where that can help, and over within its deadline. */
import { Cluster } from "ioredis";
import type { RedisValue, ScriptReply } from "../../scripts/redis-api.js";
import { StoreError } from "../errors.js";
import { checkReply } from "../reply.js";
import type { Client } from "./client.js";
import { createDeadline, type Deadline } from "./deadline.js";
import type { Gate } from "./gate.js";
import type { InFlight } from "./in-flight.js";
import { classify, isNoScript } from "./redis-errors.js";

export interface ScriptSource {
  source: string;
  sha1: string;
}

export interface Call {
  name: string;
  script: ScriptSource;
  keys: string[];
  args: RedisValue[];
  deadlineMs: number;
}

export interface CallSettings {
  client: Client;
  gate: Gate;
  inFlight: InFlight;
  /** Which server's share of the calls in flight the call counts for. */
  serverOf(keys: string[]): string;
  /** While closing, calls that were already taken are still finished. */
  phase(): "open" | "closing" | "closed";
}

export interface Caller {
  (call: Call): Promise<ScriptReply>;
  publish(channel: string, message: string, deadlineMs: number): Promise<void>;
  /** Resolves when a call could be sent; rejects with the reason why it cannot within the time given. */
  ready(withinMs: number): Promise<void>;
}

type Attempt = (deadline: Deadline) => Promise<unknown>;

const MAX_ATTEMPTS = 10;
const MAX_BACK_OFF_MS = 200;

export function createCaller({ client, gate, inFlight, serverOf, phase }: CallSettings): Caller {
  async function run(call: Call): Promise<ScriptReply> {
    return checkReply(
      call.name,
      await within(serverOf(call.keys), call.deadlineMs, (deadline) => send(call, deadline)),
    );
  }

  async function within(server: string, deadlineMs: number, attempt: Attempt): Promise<unknown> {
    if (phase() !== "open") throw closedError();
    if (!inFlight.enter(server)) throw new StoreError("overloaded", `too many calls in flight to Redis ${server}`);
    const deadline = createDeadline(deadlineMs, gate.failure);
    const attempts = repeat(attempt, deadline);
    // The place is given up when Redis has answered or the connection is gone, however long ago the caller left:
    // a stopped Redis must not make us collect calls without end.
    attempts.then(
      () => inFlight.leave(server),
      () => inFlight.leave(server),
    );
    try {
      return await deadline.race(attempts);
    } finally {
      deadline.end();
    }
  }

  async function repeat(attempt: Attempt, deadline: Deadline): Promise<unknown> {
    for (let count = 1; ; count++) {
      await untilOpen(deadline);
      try {
        deadline.awaitingReply = true;
        return await attempt(deadline);
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

  async function send({ script, keys, args }: Call, deadline: Deadline): Promise<unknown> {
    try {
      return await client.evalsha(script.sha1, keys.length, ...keys, ...args);
    } catch (error) {
      if (!isNoScript(error) || deadline.over) throw error;
      return await client.eval(script.source, keys.length, ...keys, ...args);
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

  return Object.assign(run, {
    async publish(channel: string, message: string, deadlineMs: number) {
      // The first attempt goes by a server that is always the same, so that messages do not overtake each other.
      let sender: Client = client instanceof Cluster ? primaryOf(client, serverOf([channel])) : client;
      await within(serverOf([channel]), deadlineMs, async () => {
        const own = sender;
        sender = client;
        await own.publish(channel, message);
      });
    },
    async ready(withinMs: number) {
      const deadline = createDeadline(withinMs, gate.failure);
      try {
        await untilOpen(deadline);
      } finally {
        deadline.end();
      }
    },
  });
}

function primaryOf(cluster: Cluster, server: string): Client {
  return cluster.nodes("master").find(({ options: { host, port } }) => `${host}:${port}` === server) ?? cluster;
}

function backOff(count: number): number {
  return Math.min(MAX_BACK_OFF_MS, 10 * 2 ** count) * (0.5 + Math.random() / 2);
}

function closedError(cause?: StoreError): StoreError {
  return new StoreError("closed", "the store was closed", { cause });
}
