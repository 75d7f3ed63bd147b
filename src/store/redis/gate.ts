/** Lets calls through while the client is connected to a Redis that is new enough; else holds them or says why not. */
import { StoreError } from "../errors.js";
import type { Client } from "./client.js";
import { classify, reasonOf } from "./redis-errors.js";

export interface Gate {
  /** Undefined when calls can be sent now. */
  obstacle(): "wait" | StoreError | undefined;
  /** Why the last attempt to connect failed, while there is no connection. */
  failure(): StoreError | undefined;
  /** Calls `wake` once when the gate opens or waiting makes no sense any more. Returns how to stop waiting. */
  wait(wake: () => void): () => void;
  close(): void;
}

export interface GateSettings {
  /** After so long without a connection, calls are refused at once instead of being held. */
  patienceMs: number;
  /** Looks at a fresh connection; an error it resolves with keeps the gate shut. */
  examine: () => Promise<StoreError | undefined>;
}

export function createGate(client: Client, { patienceMs, examine }: GateSettings): Gate {
  const waiting = new Set<() => void>();
  let open = false;
  let closed = false;
  let downSince = Date.now();
  let failure: StoreError | undefined;
  /** True when waiting would not help: a wrong password, a Redis that is too old. */
  let refused = false;
  let connection = 0;
  let restart: NodeJS.Timeout | undefined;

  function wakeAll(): void {
    for (const wake of [...waiting]) wake();
    waiting.clear();
  }

  function onLost(): void {
    connection++;
    if (open) downSince = Date.now();
    open = false;
  }

  client.on("ready", async () => {
    const examined = ++connection;
    const refusal = await examine();
    if (examined !== connection || closed) return;
    open = refusal === undefined;
    refused = refusal !== undefined;
    failure = refusal;
    wakeAll();
  });
  client.on("error", (error: unknown) => {
    if (open) return;
    failure = classify(error).error;
    refused = failure.kind === "denied";
    if (refused) wakeAll();
  });
  client.on("close", onLost);
  // ioredis gives up for good in some corners, for instance when a disconnection meets a connection being made.
  client.on("end", () => {
    onLost();
    if (closed) return;
    restart = setTimeout(() => client.connect().catch(() => undefined), 100);
  });

  return {
    obstacle() {
      if (open && client.status === "ready") return undefined;
      if (failure === undefined || open) return "wait";
      if (refused) return failure;
      if (Date.now() - downSince > patienceMs) {
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
      clearTimeout(restart);
      wakeAll();
    },
  };
}
