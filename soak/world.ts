/** What a soak test runs: a Redis, two services that are Node gateways as well, nginx, Envoy, and pods behind them. */
import { startEnvoy } from "../test/support/envoy-process.js";
import {
  ADMIN_TOKEN,
  type GatewayProcess,
  PLANE_TOKEN,
  startGateway,
  workersOf,
} from "../test/support/gateway-process.js";
import { type NginxProcess, startNginx } from "../test/support/nginx-process.js";
import { freePort } from "../test/support/ports.js";
import { startWebSocketBackend } from "../test/support/ws-backend.js";
import { startSoakBackend } from "./backend.js";
import type { AppRules } from "./history.js";
import { startIsolatedRedis } from "./isolated-redis.js";

export const rules: Record<string, AppRules> = {
  "open-app": { rate: 40, burst: 80, onStoreFailure: "open" },
  "local-app": { rate: 60, burst: 120, onStoreFailure: "local" },
  "closed-app": { rate: 30, burst: 60, onStoreFailure: "closed" },
  // Its load is half of its rate, so it is never refused: not by faults, and not by hostile tenants, planes and clients.
  "quiet-app": { rate: 80, burst: 160, onStoreFailure: "open", isNeverRefused: true },
};
/** The rates of all apps sum to less than the cluster's. */
export const CLUSTER = { id: "soak", capacity: 5_000, rate: 2_500 };
/** Hostile tenants use this app. */
export const HOSTILE_APP = "hostile-app";
export const HOSTILE_PLANE = "hostile";
export const HOSTILE_PLANE_TOKEN = "token-of-the-hostile-plane";
/** Open files of a service, as many as many systems permit by default. */
const MAX_FILES = 1_024;
export const FAIL_OPEN_TOKENS = 20;
export const BATCH_THRESHOLD = 50;
/** Pays for WebSockets, so that they do not count as requests of the others. */
export const SOCKET_APP = "socket-app";
export const MAX_PER_POD = 6;
export const LEASE_S = 8;
export const NODE_TTL_MS = 6_000;
/** Workers of the gateways, nginx and Envoy. */
export const NODES = 4;

export type World = Awaited<ReturnType<typeof startWorld>>;
export type PlaneName = "service-a" | "service-b" | "nginx" | "envoy";
export const planeNames: readonly PlaneName[] = ["service-a", "service-b", "nginx", "envoy"];

export function configuration(store: string, backend: string, pods: string[]): string {
  const apps = Object.entries(rules).map(
    ([app, { rate, burst, onStoreFailure }]) =>
      `  ${app}: { guaranteed: ${rate}, burst: ${burst}, on_store_failure: ${onStoreFailure}, profile: { based_on: iops, bandwidth: 0 } }`,
  );
  const list = pods.map((pod) => `"${pod}"`).join(", ");
  return `store: ${store}
log: { level: warn }
identity: { trusted_hops: [127.0.0.0/8] }
cluster: { id: ${CLUSTER.id}, capacity: ${CLUSTER.capacity}, rate: ${CLUSTER.rate}, node_ttl_ms: ${NODE_TTL_MS}, reconcile_interval_ms: 5000 }
lease: { timeout_ms: 500, batch_threshold: ${BATCH_THRESHOLD}, report_interval_ms: 2000 }
fail_open_tokens: ${FAIL_OPEN_TOKENS}
timeouts: { shutdown_ms: 5000 }
request_limits: { requests_per_client: 0 }
apps:
${apps.join("\n")}
  ${SOCKET_APP}: { guaranteed: 500, burst: 1000 }
  ${HOSTILE_APP}: { guaranteed: 1000, burst: 2000 }
  default: { guaranteed: 100, burst: 200 }
limits:
  - { name: by-user, key: [user], rate: 2000/s, match: { path: [/limited/] } }
  - { name: by-address, key: [ip], rate: 2000/s, match: { path: [/limited/] } }
  - { name: by-app, key: [app], rate: 2000/s, match: { path: [/limited/] } }
upstreams: { backend: { targets: ["${backend}"] }, pods: { targets: [${list}] } }
routes:
  - { path: /, upstream: backend }
  - { path: /priced/, upstream: backend, cost_header: X-Cost }
  - { path: /ws/, upstream: pods, connections: { max_per_pod: ${MAX_PER_POD}, max_total: 0, rate_per_second: 0, lease_s: ${LEASE_S} } }
`;
}

export async function startWorld(number: number) {
  const pods = await Promise.all([startWebSocketBackend(), startWebSocketBackend()]);
  // A proxy may send a request on a connection that the pod is about to close. Pods that keep them do not have that race.
  for (const pod of pods) pod.keepConnections();
  const backend = await startSoakBackend();
  const redis = await startIsolatedRedis(number);
  const common = configuration(
    redis.url,
    backend.target,
    pods.map(({ target }) => target),
  );
  const endings: (() => Promise<unknown>)[] = [
    () => redis.end(),
    () => backend.stop(),
    ...pods.map((pod) => () => pod.stop()),
  ];
  const stop = async () => {
    for (const end of endings.reverse()) await end().catch((error: unknown) => console.error(String(error)));
  };
  try {
    return await startPlanes();
  } catch (error) {
    await stop();
    throw error;
  }

  async function startPlanes() {
    const names = ["service-a", "service-b"] as const;
    const listens = [await freePort(), await freePort()].map((port) => `127.0.0.1:${port}`);
    const ports = [
      { port: await freePort(), controlPort: await freePort() },
      { port: await freePort(), controlPort: await freePort() },
    ];
    const startService = (i: number) =>
      startGateway(`node_id: ${names[i]}\nworkers: 1\nenvoy: { listen: "${listens[i]}" }\n${common}`, {
        ports: ports[i]!,
        built: true,
        control: `admin_token: ${ADMIN_TOKEN}, plane_token: ${PLANE_TOKEN}, planes: { ${HOSTILE_PLANE}: ${HOSTILE_PLANE_TOKEN} }`,
        maxFiles: MAX_FILES,
      });
    const services: GatewayProcess[] = [];
    endings.push(async () => {
      await Promise.all(services.map((service) => service.stop()));
    });
    for (const i of [0, 1]) services.push(await startService(i));
    const control = ports.map(({ controlPort }) => `127.0.0.1:${controlPort}`);
    const startOwnNginx = () => startNginx(common, { services: control, workers: 1, node: "nginx" });
    let nginx: NginxProcess = await startOwnNginx();
    endings.push(() => nginx.stop());
    const options = { services: control, workers: 1, node: "envoy", supervised: true };
    const envoy = await startEnvoy(common, options);
    endings.push(() => envoy.stop());

    const urlOf = (plane: PlaneName): string => {
      if (plane === "nginx") return nginx.url;
      return plane === "envoy" ? envoy.url : services[names.indexOf(plane)]!.url;
    };
    return {
      redis,
      pods,
      urlOf,
      controlUrls: () => services.map(({ controlUrl }) => controlUrl),
      service: (i: number) => services[i]!,
      /** Starts it again, on the same ports. */
      async restartService(i: number): Promise<void> {
        services[i] = await startService(i);
      },
      nginx: () => nginx,
      /** On new ports. */
      async restartNginx(): Promise<void> {
        await nginx.stop();
        nginx = await startOwnNginx();
      },
      envoy,
      /** The processes whose memory and files are watched. */
      processes: (): [string, number][] => [
        ...services.flatMap(({ pid }, i): [string, number][] => [
          [names[i]!, pid],
          ...workersOf(pid).map((worker): [string, number] => [`${names[i]} worker`, worker]),
        ]),
        ...nginx.workers().map((pid): [string, number] => ["nginx worker", pid]),
        ["envoy", envoy.pid()],
        ["redis", redis.pid()],
      ],
      adminHeaders: { authorization: `Bearer ${ADMIN_TOKEN}` },
      stop,
    };
  }
}
