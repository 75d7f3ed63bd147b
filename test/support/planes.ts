/** Starts the Node gateway, nginx or Envoy through one interface, so that a scenario can run on any of them. */
import { type EnvoyProcess, envoyPlane, startEnvoy } from "./envoy-process.js";
import { type GatewayProcess, startGateway, workersOf } from "./gateway-process.js";
import { type NginxProcess, nginxPlane, startNginx } from "./nginx-process.js";
import { startAll } from "./processes.js";

/** One proxy. */
export interface PlaneInstance {
  readonly url: string;
  /** The worker processes. A killed one is replaced. */
  workers(): number[];
  /** Reloads its configuration. */
  reload(): Promise<void>;
  /** Kills all its processes with SIGKILL. */
  killAll(): Promise<void>;
  log(): string;
}

export interface PlaneUnderTest {
  readonly kind: PlaneKind;
  readonly instances: PlaneInstance[];
  /** A control listener for the whole cluster. */
  readonly controlUrl: string;
  stop(): Promise<void>;
}

export type PlaneKind = "node" | "nginx" | "envoy";

export interface PlaneOptions {
  instances: number;
  /** Per instance. */
  workers: number;
  /** `redis://…`, `redis-cluster://…` or `embedded`. */
  store: string;
  /** host:port; empty if `yaml` contains upstreams and routes. */
  backend: string;
  /** Paths of further routes to the backend, each optionally followed by other options of the route. */
  paths?: string[];
  /** The rest of the configuration. */
  yaml: string;
  /** Envoy applies changed files while it runs, instead of a hot restart, which closes WebSockets after a while. */
  inPlace?: boolean;
}

/** Builds what the plane needs. Blocks this process, so call it before starting servers. */
export function preparePlane(kind: PlaneKind): void {
  if (kind === "nginx") nginxPlane();
  if (kind === "envoy") envoyPlane();
}

export async function startPlane(kind: PlaneKind, options: PlaneOptions): Promise<PlaneUnderTest> {
  const start = { node: startNodePlane, nginx: startNginxPlane, envoy: startEnvoyPlane }[kind];
  return start(options);
}

function routesTo({ backend, paths = [] }: Pick<PlaneOptions, "backend" | "paths">): string {
  if (backend === "") return "";
  const routes = ["/", ...paths].map((path) => `{ path: ${path}, upstream: backend }`);
  return `upstreams: { backend: { targets: ["${backend}"] } }\nroutes: [${routes.join(", ")}]\n`;
}

async function startNodePlane({ instances, workers, store, yaml, ...to }: PlaneOptions): Promise<PlaneUnderTest> {
  // Gateways cannot share an embedded store: one with as many workers takes the place of all.
  const gateways = store === "embedded" ? 1 : instances;
  const ofEach = (workers * instances) / gateways;
  const head = (i: number) => `node_id: node-${i}\nworkers: ${ofEach}\nstore: ${store}\nlog: { level: warn }\n`;
  const started = await startAll(
    Array.from({ length: gateways }, (_, i) => startGateway(`${head(i)}${routesTo(to)}${yaml}`)),
  );
  return {
    kind: "node",
    instances: Array.from({ length: instances }, (_, i) => nodeInstance(started[i % gateways]!)),
    controlUrl: started[0]!.controlUrl,
    async stop() {
      await Promise.all(started.map((gateway) => gateway.stop()));
    },
  };
}

function nodeInstance(gateway: GatewayProcess): PlaneInstance {
  return {
    url: gateway.url,
    workers: () => workersOf(gateway.pid),
    async reload() {
      gateway.kill("SIGHUP");
    },
    async killAll() {
      gateway.killAll();
      await gateway.ended;
    },
    log: gateway.output,
  };
}

/** One service, and instances of nginx that use it. */
async function startNginxPlane({ instances, workers, store, yaml, ...to }: PlaneOptions): Promise<PlaneUnderTest> {
  const common = `store: ${store}\nlog: { level: warn }\n${routesTo(to)}${yaml}`;
  const service = await startGateway(`node_id: service\nworkers: 1\n${common}`);
  const services = [service.controlUrl.replace("http://", "")];
  const started = await onService(service, () =>
    Array.from({ length: instances }, (_, i) => startNginx(common, { services, workers, node: `nginx-${i}` })),
  );
  return {
    kind: "nginx",
    instances: started.map(nginxInstance),
    controlUrl: service.controlUrl,
    async stop() {
      await Promise.all(started.map((nginx) => nginx.stop()));
      await service.stop();
    },
  };
}

/** Starts all instances. If one fails, stops the others and the service. */
async function onService<T extends { stop(): Promise<void> }>(
  service: GatewayProcess,
  start: () => Promise<T>[],
): Promise<T[]> {
  try {
    return await startAll(start());
  } catch (error) {
    await service.stop();
    throw error;
  }
}

function nginxInstance(nginx: NginxProcess): PlaneInstance {
  return {
    url: nginx.url,
    workers: nginx.workers,
    reload: () => nginx.reload(),
    killAll: nginx.killAll,
    log: nginx.log,
  };
}

/** Like nginx. The workers of Envoy are threads, so killing one kills the process; it is restarted. */
async function startEnvoyPlane(options: PlaneOptions): Promise<PlaneUnderTest> {
  const { instances, workers, store, yaml, inPlace: dynamic = false } = options;
  const common = `store: ${store}\nlog: { level: warn }\n${routesTo(options)}${yaml}`;
  const service = await startGateway(`node_id: service\nworkers: 1\n${common}`);
  const services = [service.controlUrl.replace("http://", "")];
  const started = await onService(service, () =>
    Array.from({ length: instances }, (_, i) =>
      startEnvoy(common, { services, workers, node: `envoy-${i}`, supervised: true, dynamic }),
    ),
  );
  return {
    kind: "envoy",
    instances: started.map(envoyInstance),
    controlUrl: service.controlUrl,
    async stop() {
      await Promise.all(started.map((envoy) => envoy.stop()));
      await service.stop();
    },
  };
}

function envoyInstance(envoy: EnvoyProcess): PlaneInstance {
  return {
    url: envoy.url,
    workers: () => [envoy.pid()],
    reload: () => envoy.reload(),
    killAll: envoy.killAll,
    log: envoy.log,
  };
}
