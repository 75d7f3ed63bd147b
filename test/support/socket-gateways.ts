/** Gateway processes with a WebSocket route on one Redis, and pods that count their connections. */
import { type GatewayProcess, startGateway } from "./gateway-process.js";
import { type RedisServer, startRedis } from "./redis-server.js";
import { type PodConnection, type SocketPod, startSocketPod } from "./socket-pods.js";

export interface SocketFleet {
  redis: RedisServer;
  pods: SocketPod[];
  gateways: GatewayProcess[];
  /** The route of a gateway. */
  url(gateway: number): string;
  /** A new process in place of a killed one. */
  restart(gateway: number): Promise<void>;
}

export interface FleetOptions {
  gateways: number;
  pods: number;
  /** The options of the route, as in a flow mapping: `max_per_pod: 2`. */
  connections: string;
  /** Further configuration. */
  yaml?: string;
  /** Default: a Redis of its own. */
  redis?: RedisServer;
  opened?(pod: SocketPod, connection: PodConnection): void;
  endings: (() => unknown)[];
}

export async function startSocketFleet(options: FleetOptions): Promise<SocketFleet> {
  const { endings, opened = () => undefined } = options;
  const redis = options.redis ?? (await startRedis());
  if (options.redis === undefined) endings.push(() => redis.stop());
  const pods = await Promise.all(Array.from({ length: options.pods }, () => startSocketPod(opened)));
  endings.push(() => Promise.all(pods.map((pod) => pod.stop())));
  const start = (number: number) =>
    startGateway(`
node_id: gw-${number}
workers: 1
store: ${redis.url}
apps: { default: { guaranteed: 100000, burst: 100000 } }
upstreams: { sockets: { targets: [${pods.map(({ address }) => `"${address}"`).join(", ")}], passive: { down_ms: 100 } } }
routes: [{ path: /ws/, upstream: sockets, connections: { ${options.connections} } }]
timeouts: { shutdown_ms: 3000 }
log: { level: warn, refusals_per_second: 1 }
${options.yaml ?? ""}
`);
  const gateways = await Promise.all(Array.from({ length: options.gateways }, (_, i) => start(i + 1)));
  endings.push(() => Promise.all(gateways.map((gateway) => gateway.stop())));
  return {
    redis,
    pods,
    gateways,
    url: (gateway) => `${gateways[gateway]!.url}/ws/`,
    async restart(gateway) {
      gateways[gateway] = await start(gateway + 1);
    },
  };
}
