/** The servers of one scenario: a Redis, a backend and a plane, started and stopped together. */
import { createQuota } from "../../src/quota/quota.js";
import { createRedisStore } from "../../src/store/redis/redis-store.js";
import { type SmallBackend, startSmallBackend } from "../support/gateway-process.js";
import { type PlaneKind, type PlaneOptions, type PlaneUnderTest, preparePlane, startPlane } from "../support/planes.js";
import { type RedisServer, scriptCalls, startRedis } from "../support/redis-server.js";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.js";

const CLUSTER = "cluster: { id: scenario, node_ttl_ms: 3000, reconcile_interval_ms: 1000 }\n";
/** A request costs one token, whatever its size. */
export const BY_REQUEST = "profile: { based_on: iops, bandwidth: 0 }";

export interface Fixture {
  plane: PlaneUnderTest;
  redis: RedisServer;
  /** The proxy between the services and Redis. */
  link: TcpProxy;
  backend: SmallBackend;
  quota: ReturnType<typeof createQuota>;
  /** Script calls since the previous call of this function. */
  storeCalls(): Promise<number>;
  /** Tokens that the store counts as held by the nodes of one instance. */
  heldBy(instance: number): Promise<number>;
  stop(): Promise<void>;
}

export interface FixtureOptions extends Partial<Pick<PlaneOptions, "instances" | "workers">> {
  /** The content of `apps: { … }`. */
  apps: string;
  yaml?: string;
  /** Paths of further routes to the backend. */
  paths?: string[];
}

export async function startFixture(kind: PlaneKind, options: FixtureOptions): Promise<Fixture> {
  preparePlane(kind);
  const endings: (() => unknown)[] = [];
  const stop = async () => {
    for (const end of endings.splice(0).reverse()) await end();
  };
  try {
    const redis = await startRedis();
    endings.push(() => redis.stop());
    const link = await startTcpProxy(redis.port);
    endings.push(() => link.stop());
    const backend = await startSmallBackend();
    endings.push(() => backend.stop());
    const store = createRedisStore(redis.url);
    endings.push(() => store.close());
    const quota = createQuota(store, { id: "scenario", capacity: 1_000_000, rate: 500_000, nodeTtlMs: 3000 });
    const plane = await startPlane(kind, {
      instances: options.instances ?? 2,
      workers: options.workers ?? 2,
      store: `redis://127.0.0.1:${link.port}`,
      backend: backend.target,
      paths: options.paths ?? [],
      yaml: `${CLUSTER}apps: { ${options.apps} }\n${options.yaml ?? ""}`,
    });
    endings.push(() => plane.stop());
    return {
      plane,
      redis,
      link,
      backend,
      quota,
      stop,
      async storeCalls() {
        const calls = await scriptCalls(redis);
        await redis.command("CONFIG", "RESETSTAT");
        return calls;
      },
      async heldBy(instance) {
        const nodes = (await quota.nodes()).filter(({ node }) => node.startsWith(`${kind}-${instance}`));
        const ledgers = await Promise.all(nodes.map(({ node }) => quota.ledger(node)));
        return ledgers.reduce((sum, { held }) => sum + held, 0);
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
