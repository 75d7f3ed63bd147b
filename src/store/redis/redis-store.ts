/** The store on Redis, Redis Cluster or Sentinel. Every call ends within its deadline, whatever Redis does. */
import { closedError } from "../errors.js";
import { type FunctionLibrary, loadLibrary } from "../function-library.js";
import { functionName } from "../function-names.js";
import { checkReply } from "../reply.js";
import type { Store } from "../store.js";
import { createCaller } from "./call.js";
import { type ClientOptions, createClient, DEFAULT_DEADLINE_MS, disconnect, primaries } from "./client.js";
import { createGate } from "./gate.js";
import { inspectServers } from "./inspect.js";
import { createLibraryLoader } from "./library.js";
import { parseRedisUrl } from "./redis-url.js";
import { createSubscriber } from "./subscriber.js";

export interface RedisStoreOptions extends ClientOptions {
  /** Calls per server without a reply, including calls past their deadline. */
  maxInFlight?: number;
  /** Default: the library that the build wrote. */
  library?: FunctionLibrary;
}

const DEFAULT_MAX_IN_FLIGHT = 512;

export function createRedisStore(urlOrOptions: string | RedisStoreOptions): Store {
  const options = typeof urlOrOptions === "string" ? { url: urlOrOptions } : urlOrOptions;
  const { deadlineMs = DEFAULT_DEADLINE_MS, maxInFlight = DEFAULT_MAX_IN_FLIGHT, library = loadLibrary() } = options;
  const { kind } = parseRedisUrl(options.url);
  const client = createClient(options);
  const loader = createLibraryLoader(client, library);
  const gate = createGate(client, deadlineMs, loader.examine);
  const caller = createCaller(client, gate, loader, maxInFlight);
  const subscriber = createSubscriber(options, client, deadlineMs);
  let closing: Promise<void> | undefined;

  function expectOpen(): void {
    if (closing !== undefined) throw closedError();
  }

  /** Calls that were accepted before are finished. */
  async function close(): Promise<void> {
    await caller.idle(deadlineMs);
    gate.close();
    await Promise.all([subscriber.close(), disconnect(client)]);
  }

  return {
    kind,
    async run(script, keys, args, options) {
      expectOpen();
      const reply = await caller.fcall(
        functionName(library.name, script),
        keys,
        args,
        options?.deadlineMs ?? deadlineMs,
      );
      return checkReply(script, reply);
    },
    async publish(channel, message, { deadlineMs: ownMs = deadlineMs } = {}) {
      expectOpen();
      await caller.publish(channel, message, ownMs);
    },
    async subscribe(channel, handler, { deadlineMs: ownMs = deadlineMs } = {}) {
      expectOpen();
      return subscriber.subscribe(channel, handler, ownMs);
    },
    async inspect() {
      expectOpen();
      // Counted first: the servers reply to these calls before they reply to the inspection.
      const callsInFlight = caller.inFlight();
      await gate.ready(deadlineMs);
      const facts = await inspectServers(client, deadlineMs);
      return { kind, ...facts, callsInFlight, mostCallsInFlight: maxInFlight * primaries(client).length };
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}
