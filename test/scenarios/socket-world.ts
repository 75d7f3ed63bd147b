/** The environment of WebSocket scenarios: a Redis, pods that count their connections, and instances of one plane. */
import { request } from "undici";
import { ADMIN_TOKEN } from "../support/gateway-process.js";
import { type PlaneKind, type PlaneUnderTest, preparePlane, startPlane } from "../support/planes.js";
import { type RedisServer, startRedis } from "../support/redis-server.js";
import { connectSocket, type Outcome, type SocketClient } from "../support/socket-clients.js";
import { type SocketPod, startSocketPod } from "../support/socket-pods.js";
import { waitFor } from "../support/wait-for.js";

/** A route with its own pods, so that scenarios do not affect each other. */
export interface SocketRoute {
  readonly pods: SocketPod[];
  /** When a pod saw a connection begin, by the test's clock. */
  readonly arrivals: number[];
  /** The address of the route on an instance. */
  url(instance: number): string;
  /**
   * Connects this many clients at once, to one instance or to all in turn; resolves when all have a result.
   * @param address of all these clients, named by a trusted hop; otherwise it is unknown, and has no limit
   */
  connect(count: number, instance?: number, app?: string, address?: string): Promise<Connected>;
  /** Open connections, as the pods see them. */
  live(): number;
  /** The most connections that any pod had at a time. */
  mostOnAPod(): number;
  /** Waits until the service reports this many connections on the pods. */
  untilCounted(count: number, withinMs?: number): Promise<void>;
}

export interface SocketWorld {
  readonly kind: PlaneKind;
  readonly plane: PlaneUnderTest;
  readonly redis: RedisServer;
  readonly leaseMs: number;
  route(name: string): SocketRoute;
  /** Closes all clients, and waits until the counts are zero. */
  clear(): Promise<void>;
  stop(): Promise<void>;
}

export interface Connected {
  open: SocketClient[];
  /** Different values of X-RateLimit-Dry-Run. */
  dryRun: string[];
  refused: Extract<Outcome, { open: false }>[];
}

export interface SocketWorldOptions {
  instances?: number;
  /** Workers of each instance. */
  workers?: number;
  leaseSeconds: number;
  /** By name: the number of pods, and options of `connections`. */
  routes: Record<string, { pods: number; connections: Record<string, number | string> }>;
  /** Further configuration. */
  yaml?: string;
}

export async function startSocketWorld(kind: PlaneKind, options: SocketWorldOptions): Promise<SocketWorld> {
  preparePlane(kind);
  const endings: (() => unknown)[] = [];
  const stop = async () => {
    for (const end of endings.splice(0).reverse()) await end();
  };
  const clients = new Set<SocketClient>();
  try {
    const redis = await startRedis();
    endings.push(() => redis.stop());
    const started: [string, Omit<SocketRoute, "url" | "connect" | "untilCounted">][] = [];
    for (const [name, { pods: count }] of Object.entries(options.routes)) {
      const arrivals: number[] = [];
      let most = 0;
      const pods = await Promise.all(
        Array.from({ length: count }, () =>
          startSocketPod((pod) => {
            arrivals.push(performance.now());
            most = Math.max(most, pod.live.size);
          }),
        ),
      );
      endings.push(() => Promise.all(pods.map((pod) => pod.stop())));
      const live = () => pods.reduce((sum, pod) => sum + pod.live.size, 0);
      started.push([name, { pods, arrivals, live, mostOnAPod: () => most }]);
    }
    const plane = await startPlane(kind, {
      ...{ instances: options.instances ?? 2, workers: options.workers ?? 2, store: redis.url, backend: "" },
      inPlace: true,
      yaml: yamlOf(options, started),
    });
    endings.push(() => plane.stop());
    endings.push(() => [...clients].map(({ socket }) => socket.terminate()));

    async function counted(pods: SocketPod[]): Promise<number> {
      const { body } = await request(`${plane.controlUrl}/admin/ratelimit/connections`, {
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
      });
      const answer = (await body.json()) as { pods: { pod: string; connections: number }[] };
      return answer.pods
        .filter(({ pod }) => pods.some(({ address }) => address === pod))
        .reduce((sum, { connections }) => sum + connections, 0);
    }

    const routes = new Map(
      started.map(([name, route]): [string, SocketRoute] => {
        const url = (instance: number) => `${plane.instances[instance]!.url}/${name}/`;
        return [
          name,
          {
            ...route,
            url,
            async connect(count, instance, app = "default", address) {
              const headers = { "x-app-id": app, ...(address === undefined ? {} : { "x-forwarded-for": address }) };
              const some = Array.from({ length: count }, (_, i) =>
                connectSocket(url(instance ?? i % plane.instances.length), headers),
              );
              for (const client of some) clients.add(client);
              const outcomes = await Promise.all(some.map(({ outcome }) => outcome));
              return {
                open: some.filter((_, i) => outcomes[i]!.open),
                dryRun: [...new Set(outcomes.flatMap((one) => (one.open ? dryRunHeader(one.headers) : [])))],
                refused: outcomes.flatMap((outcome) => (outcome.open ? [] : [outcome])),
              };
            },
            async untilCounted(count, withinMs = 60_000) {
              const look = async () => {
                const seen = await counted(route.pods);
                if (seen === count) return true;
                throw new Error(`${seen} are counted, ${count} should be`);
              };
              await waitFor("the count to be right", look, { withinMs });
            },
          },
        ];
      }),
    );
    return {
      ...{ kind, plane, redis, stop, leaseMs: options.leaseSeconds * 1000 },
      route: (name) => routes.get(name)!,
      async clear() {
        for (const { socket } of clients) socket.terminate();
        clients.clear();
        for (const [name, { live, untilCounted }] of routes) {
          await waitFor(`the pods of ${name} to have no connections`, () => live() === 0);
          await untilCounted(0);
        }
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function dryRunHeader(headers: Record<string, unknown>): string[] {
  const value = headers["x-ratelimit-dry-run"];
  return value === undefined ? [] : [String(value)];
}

function yamlOf(options: SocketWorldOptions, started: [string, { pods: SocketPod[] }][]): string {
  const upstream = ([name, { pods }]: (typeof started)[number]) =>
    `${name}: { targets: [${pods.map(({ address }) => `"${address}"`).join(", ")}], passive: { down_ms: 100 } }`;
  const route = ([name]: (typeof started)[number]) => {
    const unlimited = { max_total: 0, rate_per_second: 0, lease_s: options.leaseSeconds };
    const connections = { ...unlimited, ...options.routes[name]!.connections };
    return JSON.stringify({ path: `/${name}/`, upstream: name, connections });
  };
  return `
apps:
  default: { guaranteed: 100000, burst: 100000 }
  trial: { guaranteed: 100000, burst: 100000, dry_run: true }
upstreams: { ${started.map(upstream).join(", ")} }
routes: [ ${started.map(route).join(", ")} ]
timeouts: { shutdown_ms: 1000 }
${options.yaml ?? ""}`;
}

export async function endAll(clients: SocketClient[]): Promise<void> {
  for (const { socket } of clients) socket.terminate();
  await Promise.all(clients.map(({ ended }) => ended));
}

export const isOpen = ({ socket }: SocketClient) => socket.readyState === socket.OPEN;

/** Whether the pod echoes a message. */
export async function echoes(client: SocketClient): Promise<boolean> {
  if (!isOpen(client)) return false;
  return new Promise((resolve) => {
    client.socket.once("message", () => resolve(true));
    client.socket.once("close", () => resolve(false));
    client.socket.send("are you there?");
  });
}
