/** Lets calls pass while the client is connected to a usable server; otherwise makes them wait or gives the reason. */
import { EventEmitter } from "node:events";
import { closedError, StoreError } from "../errors.js";
import type { Client } from "./client.js";
import { createDeadline, type Deadline } from "./deadline.js";
import { classify, reasonOf } from "./redis-errors.js";

export type Gate = ReturnType<typeof createGate>;

/** How soon a server that could not be used is examined again: permissions may have been granted. */
const EXAMINE_AGAIN_MS = 1_000;

/**
 * @param maxWaitMs after this time without a connection, calls fail at once instead of waiting
 * @param examine checks a new connection; the error it resolves with keeps the gate closed
 */
export function createGate(client: Client, maxWaitMs: number, examine?: () => Promise<StoreError | undefined>) {
  /** Emits "change" when the gate opens or waiting is pointless. */
  const changes = new EventEmitter().setMaxListeners(0);
  let open = false;
  let closed = false;
  let downSince = Date.now();
  let lastFailure: StoreError | undefined;
  /** True when waiting does not help: wrong password, missing permission, a server without functions. */
  let refused = false;
  let connection = 0;
  let timer: NodeJS.Timeout | undefined;

  function onLost(): void {
    connection++;
    if (open) downSince = Date.now();
    open = false;
  }

  async function check(): Promise<void> {
    const examined = ++connection;
    const refusal = await examine?.();
    if (examined !== connection || closed) return;
    open = refusal === undefined;
    refused = refusal !== undefined;
    lastFailure = refusal;
    changes.emit("change");
    if (refused) timer = setTimeout(check, EXAMINE_AGAIN_MS).unref();
  }

  client.on("ready", check);
  client.on("error", (error: unknown) => {
    if (open) return;
    lastFailure = classify(error).error;
    refused = lastFailure.kind === "denied";
    if (refused) changes.emit("change");
  });
  client.on("close", () => {
    clearTimeout(timer);
    onLost();
  });
  // ioredis sometimes gives up for good, for instance when a disconnect coincides with a connection attempt.
  client.on("end", () => {
    onLost();
    if (closed) return;
    timer = setTimeout(() => client.connect().catch(() => undefined), 100);
  });

  /** The last connection error while there is no connection. */
  const failure = () => (open ? undefined : lastFailure);

  /** Resolves when a call can be sent now. Rejects at the deadline, and at once when waiting is pointless. */
  async function untilOpen(deadline: Deadline): Promise<void> {
    for (;;) {
      if (deadline.over) throw deadline.error();
      if (closed) throw closedError();
      if (open && client.status === "ready") return;
      const problem = failure();
      if (problem !== undefined && refused) throw problem;
      if (problem !== undefined && Date.now() - downSince > maxWaitMs) {
        throw new StoreError("unavailable", `no connection to Redis: ${reasonOf(problem)}`, { cause: problem.cause });
      }
      await deadline.nextChange(changes);
    }
  }

  return {
    failure,
    untilOpen,
    /** Whether a call can be sent now. */
    isOpen: () => open && !closed && client.status === "ready",
    isClosed: () => closed,
    async ready(withinMs: number): Promise<void> {
      const deadline = createDeadline(withinMs, failure);
      await untilOpen(deadline).finally(deadline.end);
    },
    close() {
      closed = true;
      clearTimeout(timer);
      changes.emit("change");
    },
  };
}
