/** The servers of the Envoy benchmark: one configuration, rendered for each variant and edited where they differ. */
import { parse } from "yaml";
import { type EnvoyProcess, type StartEnvoyOptions, startEnvoy } from "../test/support/envoy-process.js";
import { startGateway, workersOf } from "../test/support/gateway-process.js";
import { startNginx } from "../test/support/nginx-process.js";
import { freePort } from "../test/support/ports.js";
import { type RedisServer, startRedis } from "../test/support/redis-server.js";
import { cpuNs } from "./support/cpu-time.js";
import { ratelimitBinary, startRatelimit } from "./support/ratelimit-service.js";

export type SideName = "bare" | "module" | "rls" | "ratelimit";

export interface EnvoySide {
  url: string;
  /** CPU time of Envoy. */
  envoyNs(): number;
  /** CPU time of Envoy, its services and Redis. */
  allNs(): number;
}

export interface EnvoySides {
  /** Without "ratelimit" if envoyproxy/ratelimit could not be built. */
  sides: Map<SideName, EnvoySide>;
  redis: RedisServer;
  stop(): Promise<void>;
}

const BODY = "x".repeat(1024);
/** Threads of each Envoy, like the workers in the nginx benchmark. */
const WORKERS = 2;

const configuration = (target: string) => `
log: { level: error }
apps: { busy: { guaranteed: 1000000, burst: 1000000, profile: { based_on: iops, bandwidth: 0 } } }
cluster: { capacity: 10000000, rate: 10000000 }
upstreams: { backend: { targets: ["${target}"] } }
routes: [{ path: /, upstream: backend }]
`;

/** The same Envoy without limits. */
export function bareEnvoy(text: string, name: string): string {
  if (name !== "envoy.yaml") return text;
  const bootstrap = parse(text);
  const manager = bootstrap.static_resources.listeners[0].filter_chains[0].filters[0].typed_config;
  manager.http_filters = manager.http_filters.filter(
    ({ name: filter }: { name: string }) => !filter.endsWith(".dynamic_modules"),
  );
  return JSON.stringify(bootstrap);
}

/** Responds to every request with one kilobyte. */
const answering = (text: string, name: string) => {
  if (name === "tollgate-location.conf") return "";
  if (name === "tollgate-http.conf") return text.replace(/^(init|init_worker|log)_by_lua_block \{[^}]*\}\n/gm, "");
  return text.replace(/proxy_pass [^;]+;/g, `return 200 "${BODY}";`);
};

/** The backend. */
export const answeringNginx = () => startNginx(configuration("127.0.0.1:9"), { workers: 1, edit: answering });

export async function startSides(): Promise<EnvoySides> {
  const started: { stop(): Promise<void> }[] = [];
  const stop = async () => {
    for (const each of started.reverse()) await each.stop();
  };
  function keep<T extends { stop(): Promise<void> }>(server: T): T {
    started.push(server);
    return server;
  }
  try {
    const redis = keep(await startRedis());
    const backend = keep(await answeringNginx());
    const config = configuration(`127.0.0.1:${backend.port}`);
    const listen = `127.0.0.1:${await freePort()}`;
    const service = keep(
      await startGateway(
        `node_id: service\nworkers: 1\nstore: ${redis.url}\nenvoy: { listen: "${listen}" }\n${config}`,
      ),
    );
    const ours = [service.pid, ...workersOf(service.pid)];
    const common = { services: [service.controlUrl.replace("http://", "")], envoyServices: [listen], workers: WORKERS };
    const sides = new Map<SideName, EnvoySide>();
    const add = async (name: SideName, options: StartEnvoyOptions, asked: number[]) => {
      const envoy = keep(await startEnvoy(config, { ...common, node: name, ...options }));
      sides.set(name, sideOf(envoy, [...asked, redis.pid]));
    };
    await add("bare", { edit: bareEnvoy }, []);
    await add("module", { mode: "module" }, ours);
    await add("rls", { mode: "rls" }, ours);
    const binary = ratelimitBinary();
    if (binary !== undefined) {
      const theirs = keep(await startRatelimit(binary, redis.port));
      await add("ratelimit", { mode: "rls", envoyServices: [theirs.address] }, [theirs.pid]);
    }
    return { sides, redis, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function sideOf(envoy: EnvoyProcess, others: number[]): EnvoySide {
  const envoyNs = () => cpuNs([envoy.pid()]);
  return { url: `${envoy.url}/`, envoyNs, allNs: () => envoyNs() + cpuNs(others) };
}
