/** The store on Redis, Redis Cluster or Sentinel: every call ends within its deadline, whatever Redis does. */
import type { ConnectionOptions } from "node:tls";
import { Cluster } from "ioredis";
import { createChannels } from "../channels.js";
import { StoreError } from "../errors.js";
import { loadScripts } from "../script-files.js";
import type { Store } from "../store.js";
import { createCaller, type ScriptSource } from "./call.js";
import { type ClientSettings, createClient, createListener, disconnect, isMember } from "./client.js";
import { createGate } from "./gate.js";
import { hashSlot } from "./hash-slot.js";
import { createInFlight } from "./in-flight.js";
import { examine, inspectServers } from "./inspect.js";
import { parseRedisUrl } from "./redis-url.js";
import { createSubscriber } from "./subscriber.js";

export interface RedisStoreOptions {
  url: string;
  /** For one call, with connecting, redirections and repetitions. */
  deadlineMs?: number;
  /** Calls per server that Redis has not answered yet, those past their deadline included. */
  maxInFlight?: number;
  connectTimeoutMs?: number;
  /** Certificates and the like; also turns TLS on. */
  tls?: ConnectionOptions;
  sentinelUsername?: string;
  sentinelPassword?: string;
  /** What can be run. Default: the scripts of the catalog, compiled. */
  scripts?: ReadonlyMap<string, ScriptSource>;
}

const DEFAULT_DEADLINE_MS = 1_000;
const DEFAULT_MAX_IN_FLIGHT = 512;
const DEFAULT_CONNECT_TIMEOUT_MS = 2_000;

export function createRedisStore(urlOrOptions: string | RedisStoreOptions): Store {
  const options = typeof urlOrOptions === "string" ? { url: urlOrOptions } : urlOrOptions;
  const address = parseRedisUrl(options.url);
  const deadlineMs = options.deadlineMs ?? DEFAULT_DEADLINE_MS;
  const settings: ClientSettings = {
    ...options,
    address,
    silenceMs: deadlineMs,
    connectTimeoutMs: options.connectTimeoutMs ?? DEFAULT_CONNECT_TIMEOUT_MS,
  };
  const client = createClient(settings);
  const gate = createGate(client, { patienceMs: deadlineMs, examine: () => examine(client) });
  const maxInFlight = options.maxInFlight ?? DEFAULT_MAX_IN_FLIGHT;
  const inFlight = createInFlight(maxInFlight);
  const call = createCaller({ client, gate, inFlight, serverOf, phase: () => phase });
  const subscriber = createSubscriber({
    channels: createChannels(),
    connect: (lost) => createListener(settings, client, lost),
    isGood: (connection) => isMember(connection, client),
    checkMs: deadlineMs,
  });
  const scripts: ReadonlyMap<string, ScriptSource> = options.scripts ?? loadScripts();
  let phase: "open" | "closing" | "closed" = "open";
  let closing: Promise<void> | undefined;

  /** Where the call will probably go: calls in flight are counted per server. */
  function serverOf(keys: string[]): string {
    if (!(client instanceof Cluster) || keys[0] === undefined) return "";
    return client.slots[hashSlot(keys[0])]?.[0] ?? "";
  }

  async function close(): Promise<void> {
    phase = "closing";
    await inFlight.idle(deadlineMs);
    phase = "closed";
    gate.close();
    await Promise.all([subscriber.close(), disconnect(client)]);
  }

  return {
    kind: address.kind,
    hashTags: address.kind === "redis-cluster",
    async run(name, keys, args, { deadlineMs: own = deadlineMs } = {}) {
      const script = scripts.get(name);
      if (script === undefined) throw new StoreError("script", `there is no script ${name}`);
      return call({ name, script, keys, args, deadlineMs: own });
    },
    publish: (channel, message, { deadlineMs: own = deadlineMs } = {}) => call.publish(channel, message, own),
    async subscribe(channel, handler, { deadlineMs: own = deadlineMs } = {}) {
      if (phase !== "open") throw new StoreError("closed", "the store was closed");
      return subscriber.subscribe(channel, handler, own);
    },
    async inspect() {
      if (phase !== "open") throw new StoreError("closed", "the store was closed");
      // Counted first: by the time that the servers have told the rest, they have answered those as well.
      const callsInFlight = inFlight.total();
      await call.ready(deadlineMs);
      const facts = await inspectServers(address.kind, client, deadlineMs);
      // Calls go to primaries.
      const servers = client instanceof Cluster ? client.nodes("master").length : 1;
      return { ...facts, callsInFlight, mostCallsInFlight: maxInFlight * servers };
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}
