/** What a scenario plays in: a Redis, a backend and a plane, all real and ended together. */
import { request } from "undici";
import { createQuota } from "../../src/quota/quota.js";
import { createRedisStore } from "../../src/store/redis/redis-store.js";
import { ADMIN_TOKEN, type SmallBackend, startSmallBackend } from "../support/gateway-process.js";
import { type PlaneKind, type PlaneOptions, type PlaneUnderTest, preparePlane, startPlane } from "../support/planes.js";
import { type RedisServer, startRedis } from "../support/redis-server.js";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.js";

export const CLUSTER = "cluster: { id: scenario, node_ttl_ms: 3000, reconcile_interval_ms: 1000 }\n";
/** A request is a token, whatever it moves. */
export const BY_REQUEST = "profile: { based_on: iops, bandwidth: 0 }";

export interface World {
  plane: PlaneUnderTest;
  redis: RedisServer;
  /** Between the services and Redis. */
  link: TcpProxy;
  backend: SmallBackend;
  quota: ReturnType<typeof createQuota>;
  /** Calls of scripts since the last look. */
  storeCalls(): Promise<number>;
  admin(method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown }>;
  stop(): Promise<void>;
}

export interface WorldOptions extends Partial<Pick<PlaneOptions, "instances" | "workers">> {
  /** Inside of `apps: { … }`. */
  apps: string;
  yaml?: string;
}

export async function startWorld(kind: PlaneKind, options: WorldOptions): Promise<World> {
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
        const stats = String(await redis.command("INFO", "commandstats"));
        await redis.command("CONFIG", "RESETSTAT");
        return Number(/cmdstat_fcall:calls=(\d+)/.exec(stats)?.[1] ?? 0);
      },
      async admin(method, path, body) {
        const answer = await request(`${plane.controlUrl}${path}`, {
          method: method as "GET",
          headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        const text = await answer.body.text();
        return { status: answer.statusCode, body: text === "" ? undefined : JSON.parse(text) };
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
