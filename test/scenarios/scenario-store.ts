/** The store of a scenario: Redis, Redis Cluster or the embedded one, with one or several shards, and its faults. */
import { AsyncLocalStorage } from "node:async_hooks";
import { startRedisCluster } from "../support/redis-cluster.js";
import { type RedisServer, scriptCalls, startRedis } from "../support/redis-server.js";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.js";

export interface StoreSetup {
  kind: "redis" | "redis-cluster" | "embedded";
  shards: number;
}

export interface ScenarioStore extends StoreSetup {
  /** For the services: through proxies that can delay replies. */
  url: string;
  /** For the test itself; undefined if no other process can use the store. */
  directUrl: string | undefined;
  /** Of all its servers, also below. */
  kill(): Promise<void>;
  restart(): Promise<void>;
  pause(): void;
  resume(): void;
  setDelay(ms: number): void;
  /** Script calls since the previous call of this function. */
  calls(): Promise<number>;
  stop(): Promise<void>;
}

const setups = new AsyncLocalStorage<StoreSetup>();

/** Runs scenarios on this store. Otherwise they use Redis with one shard. */
export const onStore = <T>(setup: StoreSetup, play: () => Promise<T>): Promise<T> => setups.run(setup, play);

export async function startScenarioStore(): Promise<ScenarioStore> {
  const setup = setups.getStore() ?? { kind: "redis", shards: 1 };
  if (setup.kind === "embedded") return embedded(setup);
  return setup.kind === "redis" ? startSingle(setup) : startCluster(setup);
}

function embedded(setup: StoreSetup): ScenarioStore {
  const impossible = () => {
    throw new Error("the embedded store cannot fail alone");
  };
  return {
    ...setup,
    ...{ url: "embedded", directUrl: undefined, kill: impossible, restart: impossible, pause: impossible },
    ...{ resume: impossible, setDelay: impossible, calls: impossible, stop: async () => undefined },
  };
}

async function startSingle(setup: StoreSetup): Promise<ScenarioStore> {
  const redis = await startRedis();
  const link = await startTcpProxy(redis.port);
  const parts = faults([redis], [link]);
  return { ...setup, ...parts, url: `redis://127.0.0.1:${link.port}`, directUrl: redis.url };
}

/** Clients learn the addresses of the proxies from the servers. */
async function startCluster(setup: StoreSetup): Promise<ScenarioStore> {
  const cluster = await startRedisCluster({ nodeTimeoutMs: 5_000 });
  const links: TcpProxy[] = [];
  for (const node of cluster.nodes) {
    const link = await startTcpProxy(node.port);
    links.push(link);
    await node.command("CONFIG", "SET", "cluster-announce-port", link.port);
  }
  const url = `redis-cluster://${links.map(({ port }) => `127.0.0.1:${port}`).join(",")}`;
  return { ...setup, ...faults(cluster.nodes, links), url, directUrl: url };
}

function faults(servers: RedisServer[], links: TcpProxy[]) {
  const each = <T>(act: (server: RedisServer) => T) => servers.map(act);
  return {
    async kill() {
      await Promise.all(each((server) => server.kill()));
    },
    async restart() {
      await Promise.all(each((server) => server.restart()));
    },
    pause: () => void each((server) => server.pause()),
    resume: () => void each((server) => server.resume()),
    setDelay(ms: number) {
      for (const link of links) link.delayMs = ms;
    },
    async calls() {
      const counts = await Promise.all(each(scriptCalls));
      await Promise.all(each((server) => server.command("CONFIG", "RESETSTAT")));
      return counts.reduce((sum, count) => sum + count, 0);
    },
    async stop() {
      await Promise.all(links.map((link) => link.stop()));
      await Promise.all(each((server) => server.stop()));
    },
  };
}
