/** Starts a real Redis, a service, a backend whose responses are set by the request path, and an Envoy with the dynamic module. */
import type { ServerResponse } from "node:http";
import { createQuota, type Quota } from "../../../../src/quota/quota.js";
import { createRedisStore } from "../../../../src/store/redis/redis-store.js";
import { type EnvoyProcess, type StartEnvoyOptions, startEnvoy } from "../../../support/envoy-process.js";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { startBackend } from "../../../support/http-backend.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { startTcpProxy, type TcpProxy } from "../../../support/tcp-proxy.js";

export interface ModuleWorld {
  envoy: EnvoyProcess;
  service: GatewayProcess;
  redis: RedisServer;
  /** The TCP proxy between Envoy and the service's control listener. */
  link: TcpProxy;
  quota: Quota;
  /** The tokens that the store has recorded as spent by an app. */
  spent(app: string): Promise<number>;
  /** The number of calls from Envoy to the service so far. */
  calls(): Promise<number>;
  /** Responses to `/held`, which the backend leaves open until the test ends them. */
  held: ServerResponse[];
  stop(): Promise<void>;
}

interface WorldOptions extends Pick<StartEnvoyOptions, "edit" | "workers"> {
  path?: string;
  nodeTtlMs?: number;
}

/** `apps` is the content of `apps: { … }`; `path` is the path of the only route. */
export async function startModuleWorld(
  apps: string,
  yaml = "",
  { path = "/", nodeTtlMs = 10_000, ...options }: WorldOptions = {},
): Promise<ModuleWorld> {
  const endings: (() => unknown)[] = [];
  const stop = async () => {
    for (const end of endings.splice(0).reverse()) await end();
  };
  try {
    const held: ServerResponse[] = [];
    const redis = await startRedis();
    endings.push(() => redis.stop());
    const backend = await startBackend((incoming, response) => {
      const { pathname, searchParams } = new URL(incoming.url ?? "/", "http://backend");
      const body = "x".repeat(Number(searchParams.get("bytes") ?? 2));
      response.setHeader("x-ratelimit-limit", "the backend's own");
      response.setHeader("x-seen", JSON.stringify(incoming.headers));
      incoming.resume();
      incoming.on("end", () => {
        if (pathname === "/held") held.push(response);
        else if (pathname === "/chunked") response.write(body, () => response.end());
        else if (pathname === "/unchanged") response.writeHead(304, { "content-length": "1000000" }).end();
        else response.end(body);
      });
    });
    endings.push(() => backend.stop());
    const common = `
store: ${redis.url}
cluster: { id: module, node_ttl_ms: ${nodeTtlMs}, reconcile_interval_ms: 1000 }
log: { level: warn }
apps: { ${apps} }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: ${path}, upstream: backend }]
${yaml}`;
    const service = await startGateway(`node_id: service\nworkers: 1\n${common}`);
    endings.push(() => service.stop());
    const link = await startTcpProxy(Number(new URL(service.controlUrl).port));
    endings.push(() => link.stop());
    const services = [`127.0.0.1:${link.port}`];
    const envoy = await startEnvoy(common, {
      services,
      mode: "module",
      node: "envoy",
      workers: 1,
      ...options,
    });
    endings.push(() => envoy.stop());
    const store = createRedisStore(redis.url);
    endings.push(() => store.close());
    const quota = createQuota(store, { id: "module", capacity: 1_000_000, rate: 500_000, nodeTtlMs });
    return {
      envoy,
      service,
      redis,
      link,
      quota,
      held,
      stop,
      spent: async (app) => Number(await redis.command("HGET", `ratelimit:{module/0}:app:${app}`, "spent")),
      async calls() {
        const text = await envoy.admin("/stats?filter=tollgate_control.upstream_rq_total");
        return Number(/upstream_rq_total: (\d+)/.exec(text)?.[1] ?? 0);
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
