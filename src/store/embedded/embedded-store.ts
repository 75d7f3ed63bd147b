/** The store inside the process: runs the script functions natively, for one machine, tests and simulations. */
import { performance } from "node:perf_hooks";
import { catalog } from "../../scripts/catalog.js";
import type { RedisValue, Script, ScriptReply } from "../../scripts/redis-api.js";
import { createChannels } from "../channels.js";
import { StoreError } from "../errors.js";
import { checkReply } from "../reply.js";
import type { Store } from "../store.js";
import { redisApi } from "./commands.js";
import { createKeyspace } from "./keyspace.js";

export interface EmbeddedStoreOptions {
  /** Microseconds since 1970. Default: the start of the process plus its monotonic clock. */
  clock?: () => number;
  /** Default: the catalog. */
  scripts?: Record<string, { run: Script }>;
}

export function createEmbeddedStore(options: EmbeddedStoreOptions = {}): Store {
  const keyspace = createKeyspace(options.clock ?? processClock);
  const scripts = new Map<string, { run: Script }>(Object.entries(options.scripts ?? catalog));
  const channels = createChannels();
  const deliverLater = (channel: string, message: string) => queueMicrotask(() => channels.deliver(channel, message));
  const redis = redisApi(keyspace, deliverLater);
  let closed = false;

  function mustBeOpen(): void {
    if (closed) throw new StoreError("closed", "the embedded store was closed");
  }

  function execute(name: string, keys: string[], args: RedisValue[]): ScriptReply {
    mustBeOpen();
    const script = scripts.get(name);
    if (script === undefined) throw new StoreError("script", `unknown script ${name}`);
    let reply: unknown;
    try {
      reply = keyspace.atomically(() => script.run(redis, [...keys], args.map(String)));
    } catch (error) {
      throw new StoreError("script", `${name} failed: ${error instanceof Error ? error.message : "unknown"}`, {
        cause: error,
      });
    }
    // Redis has no negative zero.
    return checkReply(name, reply).map((item) => (item === 0 ? 0 : item));
  }

  return {
    kind: "embedded",
    // `async` turns exceptions into rejections; the script still runs synchronously.
    run: async (script, keys, args) => execute(script, keys, args),
    async publish(channel, message) {
      mustBeOpen();
      deliverLater(channel, message);
    },
    async subscribe(channel, handler) {
      mustBeOpen();
      return channels.add(channel, handler);
    },
    inspect: async () => ({
      kind: "embedded",
      version: process.versions.node,
      nodes: 1,
      connectedNodes: closed ? 0 : 1,
      latencyMs: 0,
      callsInFlight: 0,
      mostCallsInFlight: 0,
      evictionPolicy: "noeviction",
      warnings: [],
    }),
    close: async () => {
      closed = true;
      channels.clear();
    },
  };
}

function processClock(): number {
  return Math.floor((performance.timeOrigin + performance.now()) * 1000);
}
