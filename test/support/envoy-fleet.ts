/** Envoys with WebSocket routes, one service that can be killed and restarted, a Redis, and pods that count connections. */
import { readFileSync, writeFileSync } from "node:fs";
import { request } from "undici";
import { type EnvoyProcess, startEnvoy } from "./envoy-process.js";
import { ADMIN_TOKEN, type GatewayProcess, startGateway } from "./gateway-process.js";
import { freePort } from "./ports.js";
import { startAll } from "./processes.js";
import { type RedisServer, startRedis } from "./redis-server.js";
import { connectSocket, type Outcome, type SocketClient } from "./socket-clients.js";
import { type SocketPod, startSocketPod } from "./socket-pods.js";
import { waitFor } from "./wait-for.js";

export interface FleetRoute {
  /** For example `/ws/`. */
  path: string;
  pods: number;
  /** The content of `connections: { … }`. */
  connections: string;
}

export interface EnvoyFleet {
  redis: RedisServer;
  envoys: EnvoyProcess[];
  service(): GatewayProcess;
  /** By the path of their route. */
  pods(path: string): SocketPod[];
  /** Opens connections at the same time, on all Envoys in turn or on one. Resolves when each is open or refused. */
  connect(path: string, count: number, envoy?: number): Promise<Connected>;
  /** Connections of a route, counted by the store. */
  counted(path: string): Promise<number>;
  untilCounted(path: string, count: number, withinMs?: number): Promise<void>;
  /** Connections counted by the pods themselves. */
  live(path: string): number;
  /** Changes the configuration of the Envoys and of the service, which follows later. */
  change(edit: (yaml: string) => string): Promise<void>;
  killService(): Promise<void>;
  startService(): Promise<void>;
  stop(): Promise<void>;
}

export interface Connected {
  open: SocketClient[];
  refused: Extract<Outcome, { open: false }>[];
}

export interface FleetOptions {
  envoys?: number;
  routes: FleetRoute[];
  /** Further configuration, as YAML. */
  yaml?: string;
  /** Envoys watch their files and apply changes. */
  dynamic?: boolean;
  /** Further content of `timeouts: { … }`. */
  timeouts?: string;
}

export async function startEnvoyFleet(options: FleetOptions): Promise<EnvoyFleet> {
  const { envoys: count = 2, routes, yaml = "", dynamic = false, timeouts = "" } = options;
  const endings: (() => unknown)[] = [];
  const stop = async () => {
    for (const end of endings.splice(0).reverse()) await end();
  };
  try {
    const redis = await startRedis();
    endings.push(() => redis.stop());
    const podsOf = new Map<string, SocketPod[]>();
    for (const { path, pods } of routes) {
      const some = await Promise.all(Array.from({ length: pods }, () => startSocketPod(() => undefined)));
      podsOf.set(path, some);
      endings.push(() => Promise.all(some.map((pod) => pod.stop())));
    }
    let config = configuration(redis.url, routes, podsOf, timeouts) + yaml;
    const ports = { port: await freePort(), controlPort: await freePort() };
    const startService = () => startGateway(`node_id: service\nworkers: 1\n${config}`, { ports });
    let service = await startService();
    endings.push(() => service.stop());
    const services = [service.controlUrl.replace("http://", "")];
    const envoys = await startAll(
      Array.from({ length: count }, (_, i) =>
        startEnvoy(config, { services, workers: 2, node: `envoy-${i}`, dynamic }),
      ),
    );
    endings.push(() => Promise.all(envoys.map((envoy) => envoy.stop())));
    const clients: SocketClient[] = [];
    endings.push(() => clients.map(({ socket }) => socket.terminate()));

    const pods = (path: string) => podsOf.get(path)!;
    async function counted(path: string): Promise<number> {
      const { body } = await request(`${service.controlUrl}/admin/ratelimit/connections`, {
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
      });
      const { routes: found } = (await body.json()) as { routes: { route: string; connections: number }[] };
      return found.find(({ route }) => route === path)?.connections ?? 0;
    }
    return {
      redis,
      envoys,
      pods,
      counted,
      stop,
      service: () => service,
      async connect(path, many, envoy) {
        const some = Array.from({ length: many }, (_, i) => connectSocket(`${envoys[envoy ?? i % count]!.url}${path}`));
        clients.push(...some);
        const outcomes = await Promise.all(some.map(({ outcome }) => outcome));
        return {
          open: some.filter((_, i) => outcomes[i]!.open),
          refused: outcomes.flatMap((outcome) => (outcome.open ? [] : [outcome])),
        };
      },
      async untilCounted(path, wanted, withinMs = 60_000) {
        const look = async () => {
          const seen = await counted(path);
          if (seen === wanted) return true;
          throw new Error(`${seen} are counted on ${path}, ${wanted} should be`);
        };
        await waitFor("the store to count the connections correctly", look, { withinMs });
      },
      live: (path) => pods(path).reduce((sum, { live }) => sum + live.size, 0),
      async change(edit) {
        const next = edit(config);
        if (next === config) throw new Error("nothing would change");
        writeFileSync(
          service.file,
          readFileSync(service.file, "utf8").replace(config, () => next),
        );
        service.kill("SIGHUP");
        config = next;
        await Promise.all(envoys.map((envoy) => envoy.reload(next)));
      },
      async killService() {
        service.killAll();
        await service.ended;
      },
      async startService() {
        service = await startService();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function configuration(
  store: string,
  routes: FleetRoute[],
  podsOf: Map<string, SocketPod[]>,
  timeouts: string,
): string {
  const name = (path: string) => path.replaceAll("/", "");
  const upstreams = routes.map(({ path }) => {
    const targets = podsOf.get(path)!.map(({ address }) => `"${address}"`);
    return `  ${name(path)}: { targets: [${targets.join(", ")}], passive: { failures: 1, down_ms: 30000 } }\n`;
  });
  const lines = routes.map(
    ({ path, connections }) => `  - { path: ${path}, upstream: ${name(path)}, connections: { ${connections} } }\n`,
  );
  return `store: ${store}
apps:
  default: { guaranteed: 1000000, burst: 1000000 }
  metered: { guaranteed: 1000, burst: 1000 }
upstreams:
${upstreams.join("")}routes:
${lines.join("")}timeouts: { shutdown_ms: 1000${timeouts} }
lease: { timeout_ms: 3000 }
log: { level: warn }
`;
}
