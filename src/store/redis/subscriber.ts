/** Pub/sub on its own connection: opened by the first subscription, reopened when lost, on another server if necessary. */
import { EventEmitter } from "node:events";
import type { Redis } from "ioredis";
import { every } from "../../shared/background.js";
import { createChannels } from "../channels.js";
import { closedError, type StoreError } from "../errors.js";
import type { MessageHandler, Unsubscribe } from "../store.js";
import { type Client, type ClientOptions, createListener, disconnect, isMember, reconnectDelay } from "./client.js";
import { createDeadline } from "./deadline.js";
import { classify } from "./redis-errors.js";

/** @param checkMs interval of PINGs: a dead connection is not noticed otherwise */
export function createSubscriber(options: ClientOptions, client: Client, checkMs: number) {
  const channels = createChannels();
  /** Channels whose subscription the current connection has confirmed. */
  const confirmed = new Set<string>();
  /** Emits "change" when channels are confirmed or waiting is pointless. */
  const changes = new EventEmitter().setMaxListeners(0);
  let connection: Redis | undefined;
  let failure: StoreError | undefined;
  let attempts = 0;
  let closed = false;
  let restart: NodeJS.Timeout | undefined;
  let stopChecks = () => {};

  function open(lost?: Redis): void {
    clearTimeout(restart);
    restart = undefined;
    const own = createListener(options, client, lost);
    connection = own;
    own.on("message", (channel, message) => channels.deliver(channel, message));
    own.on("error", (error) => fail(error));
    own.on("ready", () => {
      attempts = 0;
      failure = undefined;
      listen(own, channels.names());
      stopChecks();
      stopChecks = every(checkMs, () => examine(own));
    });
    own.on("end", () => {
      if (connection === own) onLost(own);
    });
  }

  function onLost(own: Redis): void {
    connection = undefined;
    confirmed.clear();
    stopChecks();
    if (closed || channels.names().length === 0) return;
    restart = setTimeout(() => open(own), reconnectDelay(attempts++));
    restart.unref();
  }

  function listen(own: Redis, names: string[]): void {
    if (names.length === 0) {
      own.disconnect();
      return;
    }
    own.subscribe(...names).then(
      () => {
        if (own !== connection) return;
        for (const name of names) if (channels.has(name)) confirmed.add(name);
        changes.emit("change");
      },
      (error: unknown) => {
        fail(error);
        // Once is enough: when the connection is lost, the subscriptions to all channels fail.
        if (own.status === "ready") own.disconnect();
      },
    );
  }

  function fail(error: unknown): void {
    failure = classify(error).error;
    if (failure.kind === "denied") changes.emit("change");
  }

  /** If the reply does not arrive, the socket timeout ends the connection. */
  function examine(own: Redis): void {
    if (own !== connection) return;
    if (isMember(own, client)) own.ping().catch(fail);
    else own.disconnect();
  }

  /** Unsubscribes after the last handler is gone; disconnects after the last channel. */
  function forget(channel: string): void {
    if (channels.has(channel)) return;
    confirmed.delete(channel);
    if (channels.names().length === 0) {
      clearTimeout(restart);
      connection?.disconnect();
    } else if (connection?.status === "ready") {
      connection.unsubscribe(channel).catch(fail);
    }
  }

  async function untilConfirmed(channel: string, deadlineMs: number): Promise<void> {
    const deadline = createDeadline(deadlineMs, () => failure);
    try {
      while (!confirmed.has(channel)) {
        if (closed) throw closedError();
        if (deadline.over) throw deadline.error();
        await deadline.nextChange(changes);
        if (failure?.kind === "denied" && !confirmed.has(channel)) throw failure;
      }
    } finally {
      deadline.end();
    }
  }

  return {
    async subscribe(channel: string, handler: MessageHandler, deadlineMs: number): Promise<Unsubscribe> {
      if (closed) throw closedError();
      const isNew = !channels.has(channel);
      const remove = channels.add(channel, handler);
      const leave = () => {
        remove();
        forget(channel);
      };
      if (connection === undefined) open();
      else if (isNew && connection.status === "ready") listen(connection, [channel]);
      try {
        await untilConfirmed(channel, deadlineMs);
      } catch (error) {
        leave();
        throw error;
      }
      return leave;
    },
    async close(): Promise<void> {
      closed = true;
      channels.clear();
      clearTimeout(restart);
      stopChecks();
      changes.emit("change");
      if (connection !== undefined) await disconnect(connection);
    },
  };
}
