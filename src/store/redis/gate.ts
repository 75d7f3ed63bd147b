/** Lets calls pass while the client is connected to a usable server; otherwise makes them wait or gives the reason. */
import { StoreError } from "../errors.js";
import type { Client } from "./client.js";
import { classify, reasonOf } from "./redis-errors.js";

export interface Gate {
  /** Undefined when calls can be sent now. */
  obstacle(): "wait" | StoreError | undefined;
  /** The last connection error while there is no connection. */
  failure(): StoreError | undefined;
  /** Calls `wake` once, when the gate opens or waiting is pointless. Returns a function that stops waiting. */
  wait(wake: () => void): () => void;
  close(): void;
}

export interface GateOptions {
  /** After this time without a connection, calls fail at once instead of waiting. */
  maxWaitMs: number;
  /** Checks a new connection; the error it resolves with keeps the gate closed. */
  examine: () => Promise<StoreError | undefined>;
}

/** How soon a server that could not be used is examined again: permissions may have been granted. */
const EXAMINE_AGAIN_MS = 1_000;

export function createGate(client: Client, { maxWaitMs, examine }: GateOptions): Gate {
  const waiting = new Set<() => void>();
  let open = false;
  let closed = false;
  let downSince = Date.now();
  let failure: StoreError | undefined;
  /** True when waiting does not help: wrong password, missing permission, a server without functions. */
  let refused = false;
  let connection = 0;
  let timer: NodeJS.Timeout | undefined;

  function wakeAll(): void {
    for (const wake of [...waiting]) wake();
    waiting.clear();
  }

  function onLost(): void {
    connection++;
    if (open) downSince = Date.now();
    open = false;
  }

  async function check(): Promise<void> {
    const examined = ++connection;
    const refusal = await examine();
    if (examined !== connection || closed) return;
    open = refusal === undefined;
    refused = refusal !== undefined;
    failure = refusal;
    wakeAll();
    if (refused) timer = setTimeout(check, EXAMINE_AGAIN_MS).unref();
  }

  client.on("ready", check);
  client.on("error", (error: unknown) => {
    if (open) return;
    failure = classify(error).error;
    refused = failure.kind === "denied";
    if (refused) wakeAll();
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

  return {
    obstacle() {
      if (open && client.status === "ready") return undefined;
      if (failure === undefined || open) return "wait";
      if (refused) return failure;
      if (Date.now() - downSince > maxWaitMs) {
        return new StoreError("unavailable", `no connection to Redis: ${reasonOf(failure)}`, { cause: failure.cause });
      }
      return "wait";
    },
    failure: () => (open ? undefined : failure),
    wait(wake) {
      waiting.add(wake);
      return () => waiting.delete(wake);
    },
    close() {
      closed = true;
      clearTimeout(timer);
      wakeAll();
    },
  };
}
