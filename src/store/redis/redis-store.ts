/** The store on Redis, Redis Cluster or Sentinel. Every call ends within its deadline, whatever Redis does. */
import type { ConnectionOptions } from "node:tls";
import { Cluster } from "ioredis";
import { createChannels } from "../channels.js";
import { StoreError } from "../errors.js";
import { type FunctionLibrary, functionName, loadLibrary } from "../function-library.js";
import { checkReply } from "../reply.js";
import type { Store } from "../store.js";
import { createCaller } from "./call.js";
import { type ClientOptions, createClient, createListener, disconnect, isMember, primaries } from "./client.js";
import { createGate } from "./gate.js";
import { hashSlot } from "./hash-slot.js";
import { createInFlight } from "./in-flight.js";
import { inspectServers } from "./inspect.js";
import { createLibraryLoader } from "./library.js";
import { parseRedisUrl } from "./redis-url.js";
import { createSubscriber } from "./subscriber.js";

export interface RedisStoreOptions {
  url: string;
  /** For one call, including connecting, redirections and retries. */
  deadlineMs?: number;
  /** Calls per server without a reply, including calls past their deadline. */
  maxInFlight?: number;
  connectTimeoutMs?: number;
  /** Certificates and other TLS options; also enables TLS. */
  tls?: ConnectionOptions;
  sentinelUsername?: string;
  sentinelPassword?: string;
  /** Default: the library that the build wrote. */
  library?: FunctionLibrary;
}

const DEFAULT_DEADLINE_MS = 1_000;
const DEFAULT_MAX_IN_FLIGHT = 512;
const DEFAULT_CONNECT_TIMEOUT_MS = 2_000;

export function createRedisStore(urlOrOptions: string | RedisStoreOptions): Store {
  const options = typeof urlOrOptions === "string" ? { url: urlOrOptions } : urlOrOptions;
  const { deadlineMs = DEFAULT_DEADLINE_MS, maxInFlight = DEFAULT_MAX_IN_FLIGHT, library = loadLibrary() } = options;
  const clientOptions = clientOptionsOf(options);
  const { kind } = clientOptions.address;
  const client = createClient(clientOptions);
  const loader = createLibraryLoader(client, library);
  const gate = createGate(client, { maxWaitMs: deadlineMs, examine: loader.examine });
  const inFlight = createInFlight(maxInFlight);
  const caller = createCaller({ client, gate, inFlight, library: loader, serverOf, phase: () => phase });
  const subscriber = createSubscriber({
    channels: createChannels(),
    connect: (lost) => createListener(clientOptions, client, lost),
    isGood: (connection) => isMember(connection, client),
    checkMs: deadlineMs,
  });
  let phase: "open" | "closing" | "closed" = "open";
  let closing: Promise<void> | undefined;

  function serverOf(key: string | undefined): string {
    if (!(client instanceof Cluster) || key === undefined) return "";
    return client.slots[hashSlot(key)]?.[0] ?? "";
  }

  function expectOpen(): void {
    if (phase !== "open") throw new StoreError("closed", "the store was closed");
  }

  async function close(): Promise<void> {
    phase = "closing";
    await inFlight.idle(deadlineMs);
    phase = "closed";
    gate.close();
    await Promise.all([subscriber.close(), disconnect(client)]);
  }

  return {
    kind,
    hashTags: kind === "redis-cluster",
    async run(script, keys, args, { deadlineMs: ownMs = deadlineMs } = {}) {
      return checkReply(script, await caller.fcall(functionName(library.name, script), keys, args, ownMs));
    },
    publish: (channel, message, { deadlineMs: ownMs = deadlineMs } = {}) => caller.publish(channel, message, ownMs),
    async subscribe(channel, handler, { deadlineMs: ownMs = deadlineMs } = {}) {
      expectOpen();
      return subscriber.subscribe(channel, handler, ownMs);
    },
    async inspect() {
      expectOpen();
      // Counted first: the servers reply to these calls before they reply to the inspection.
      const callsInFlight = inFlight.total();
      await caller.ready(deadlineMs);
      const facts = await inspectServers(kind, client, deadlineMs);
      return { ...facts, callsInFlight, mostCallsInFlight: maxInFlight * primaries(client).length };
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}

export function clientOptionsOf(options: RedisStoreOptions): ClientOptions {
  return {
    address: parseRedisUrl(options.url),
    silenceMs: options.deadlineMs ?? DEFAULT_DEADLINE_MS,
    connectTimeoutMs: options.connectTimeoutMs ?? DEFAULT_CONNECT_TIMEOUT_MS,
    tls: options.tls,
    sentinelUsername: options.sentinelUsername,
    sentinelPassword: options.sentinelPassword,
  };
}
