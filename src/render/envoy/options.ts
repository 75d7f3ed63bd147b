/** Options of `renderEnvoy`, their defaults, and the names that the rendered files share. */
import type { CommonRenderOptions } from "../common.js";

/**
 * Every Envoy appends a random suffix to `node` (default "envoy"), so several may share it. `workers` is the
 * number of threads (`--concurrency`; default: `workers` of the configuration).
 */
export interface EnvoyRenderOptions extends CommonRenderOptions {
  /**
   * `module`: Envoy decides from leases, in a dynamic module. `rls`: Envoy's own filter calls the service for each request.
   */
  mode: "module" | "rls";
  /** What is rendered. The others contain only what an existing Envoy, Istio or Envoy Gateway needs in addition. */
  form?: EnvoyForm | undefined;
  /** For Istio and Envoy Gateway. */
  kubernetes?: KubernetesOptions | undefined;
  /** With `rls`: `host:port` of the services' listeners for Envoy (`envoy.listen`). */
  envoyServices: string[];
  /** Address for clients. Default: `listen` of the configuration. */
  listen?: string | undefined;
  /** Path of a Unix socket, or `host:port`, for Envoy's admin interface. Default: ADMIN_SOCKET next to the files. */
  admin?: string | undefined;
  /** Maximum number of client connections. */
  maxConnections: number;
  /** A load balancer in front, such as an AWS ALB. */
  balancer?: Balancer | undefined;
  /** Put listeners, clusters and routes into separate files, which a running Envoy reloads. */
  dynamic: boolean;
}

export type EnvoyForm = "bootstrap" | "fragment" | "istio" | "envoy-gateway";

export interface Balancer {
  /** Number of proxies in front that append to X-Forwarded-For. */
  hops: number;
  /** Idle timeout of the balancer's connections. */
  idleMs: number;
  /** Path of the balancer's health check. */
  healthPath: string;
}

/** Where the resources are, and what they apply to. */
export interface KubernetesOptions {
  namespace: string;
  /** Name of a Gateway of the Gateway API. */
  gateway?: string | undefined;
  /** Names of its listeners. */
  listeners: string[];
  /** An image with the dynamic module. */
  image: string;
}

export const BOOTSTRAP = "envoy.yaml";
export const FRAGMENT = "fragment.yaml";
export const ISTIO = "istio.yaml";
export const ENVOY_GATEWAY = "envoy-gateway.yaml";
export const SCRIPT = "tollgate.lua";
/** With `dynamic`. */
export const LISTENERS = "listeners.yaml";
export const CLUSTERS = "clusters.yaml";
export const ROUTES = "routes.yaml";

export const DEFAULT_NODE = "envoy";
export const ADMIN_SOCKET = "admin.sock";
export const DEFAULT_CONNECTIONS = 100_000;

/** The services' control listeners: `POST /v1/sync`, `/v1/connections/…`. */
export const CONTROL_CLUSTER = "tollgate_control";
/** The services' listeners for Envoy: the Rate Limit Service over gRPC. */
export const SERVICE_CLUSTER = "tollgate_envoy";
