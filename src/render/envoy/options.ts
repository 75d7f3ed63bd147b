/** Options of `renderEnvoy`, their defaults, and the names that the rendered files share. */

export interface EnvoyRenderOptions {
  /** Absolute path of the folder from which Envoy will read the files. */
  path: string;
  /** `lua`: Envoy decides from leases. `rls`: Envoy's own filter calls the service for each request. */
  mode: "lua" | "rls";
  /** `host:port` of the services' control listeners. */
  services: string[];
  /** `host:port` of the services' listeners for Envoy (`envoy.listen`). */
  envoyServices: string[];
  /** Default: "envoy". Every worker appends a random suffix, so several Envoys may share it. */
  node?: string | undefined;
  /** Address for clients. Default: `listen` of the configuration. */
  listen?: string | undefined;
  /** Number of worker threads (`--concurrency`). Default: `workers` of the configuration. */
  workers?: number | undefined;
  /** `host:port` of Envoy's admin interface. */
  admin: string;
  /** Maximum number of client connections. */
  maxConnections: number;
  /** A load balancer in front, such as an AWS ALB. */
  balancer?: Balancer | undefined;
  tls?: { certificate: string; key: string } | undefined;
  /** Put listeners, clusters and routes into separate files, which a running Envoy reloads. */
  dynamic?: boolean | undefined;
  /** The text of dist/lua/envoy/tollgate.lua; unused with `rls`. */
  bundle: string;
}

export interface Balancer {
  /** Number of proxies in front that append to X-Forwarded-For. */
  hops: number;
  /** Idle timeout of the balancer's connections. */
  idleMs: number;
  /** Path of the balancer's health check. */
  healthPath: string;
}

export const BOOTSTRAP = "envoy.yaml";
export const SCRIPT = "tollgate.lua";
export const DEFAULT_NODE = "envoy";
export const DEFAULT_ADMIN = "127.0.0.1:9901";
export const DEFAULT_CONNECTIONS = 100_000;
export const DEFAULT_BALANCER: Balancer = { hops: 1, idleMs: 60_000, healthPath: "/healthz" };

/** The services' control listeners: `POST /v1/sync`, `/v1/connections/…`. */
export const CONTROL_CLUSTER = "tollgate_control";
/** The services' listeners for Envoy: rate limits and access logs over gRPC, `POST /v1/check`. */
export const SERVICE_CLUSTER = "tollgate_envoy";
