/** The options of the nginx and Envoy planes. `tollgate render` writes them as a Lua table. */
import type { Network } from "../../core/address.js";
import type { AppLimits } from "../../core/app-limits.js";
import type { CostProfile } from "../../core/cost.js";
import type { IdentityRules } from "../../core/identity.js";
import type { LeaseOptions } from "../../core/lease.js";
import type { PathRules } from "../../core/path.js";
import type { HeaderOptions } from "../../core/response-headers.js";
import type { PlacementLimits, PolicyWithoutStore } from "../../engine/slots/without-store.js";
import type { LimitRules } from "../../limit-rules/limit-rules.js";

export interface PlaneOptions {
  /** Empty: host name and process. Envoy appends a random suffix per process. */
  node: string;
  configVersion: string;
  lease: LeaseOptions;
  timeoutMs: number;
  failOpenTokens?: number;
  identity: {
    /** In lower case. */
    appHeader: string;
    userHeader: string;
    apiKeyHeader: string;
    rules: IdentityRules;
    /** Backends get app and user. */
    forward: boolean;
    /** SHA-1 of an API key → app. The keys themselves are not rendered. */
    apiKeys: { [digest: string]: string };
  };
  /** Which paths get 400. Envoy applies them itself. */
  paths: PathRules;
  /** Requests with more headers get 431. */
  headerCount: number;
  headers: HeaderOptions;
  apps: AppLimits[];
  limits: LimitRules;
  /** Values of limits with their own bucket: of one nginx, or of one Envoy. */
  maxValues: number;
  /** `identity.trusted_hops`, for X-Forwarded-For. */
  trustedNetworks: Network[];
  /** Number of shards. */
  shards: number;
  /** Routes with options of their own, by host and path. */
  routes: { [name: string]: PlaneRoute | undefined };
}

/** Options of a route that replace those of the app. */
export interface PlaneRoute {
  profile?: CostProfile;
  /** Header of responses with their cost, in lower case. */
  costHeader?: string;
}

/** Limits of a route that accepts connections. */
export interface SocketRouteLimits extends PlacementLimits, PolicyWithoutStore {
  leaseMs: number;
  /** Protocols to upgrade to, in lower case. */
  protocols: string[];
  /** Skip a pod for this long after it could not be reached. */
  downMs: number;
}

export interface ServiceAddress {
  host: string;
  port: number;
}

/** The limits are used without the store only; otherwise the service decides. */
export interface NginxSocketRoute extends SocketRouteLimits {
  /** Host and path. */
  name: string;
  /** Key of `upstreams` in the configuration. */
  upstream: string;
  /** Skip a pod after this many failures in a row. */
  tolerated: number;
  pods: string[];
  /** Each pod has its own nginx upstream block. */
  podUpstreams: { [pod: string]: string };
}

export interface NginxSocketOptions {
  /** For a pod to answer the request. */
  responseMs: number;
  /** Close connections this long after nginx began to quit. */
  shutdownMs: number;
  routes: NginxSocketRoute[];
}

/** Empty texts mean "none". */
export interface NginxServiceTls {
  on: boolean;
  /** The name in the certificate of the services; empty: their host. */
  name: string;
  /** Paths of the own certificate and key. */
  certificate: string;
  key: string;
}

export interface NginxOptions extends PlaneOptions {
  /** Empty: none, the plane has a certificate. */
  planeToken: string;
  /** Request headers that backends never get, in lower case. */
  hiddenHeaders: string[];
  /** The control listeners of the services, in the order in which they are tried. */
  services: ServiceAddress[];
  serviceTls: NginxServiceTls;
  connections: NginxSocketOptions;
  /** `worker_rlimit_nofile` of the rendered nginx.conf; 0 if nginx has its own configuration. */
  openFiles: number;
}

/** Envoy's clusters have the addresses of the services. */
export interface EnvoyOptions extends PlaneOptions {
  /** The cluster of the services' control listeners. */
  cluster: string;
  /** Some route has options of its own. Only then the plane asks Envoy for the route. */
  hasRoutes: boolean;
  /** For the check whether a pod can be reached. */
  connectMs: number;
  /** For a pod to answer an upgrade. */
  responseMs: number;
  /** Larger request bodies get 413. Envoy itself rejects those whose Content-Length says so. */
  bodyBytes: number;
  /** With `unknown_length: delay`, bodies and upgraded connections wait this long without a token. */
  bodyPatienceMs: number;
  upgradePatienceMs: number;
  socketRoutes: EnvoySocketRoute[];
}

/** The limits are used without the store only; otherwise the service decides. */
export interface EnvoySocketRoute extends SocketRouteLimits {
  /** Host and path. */
  name: string;
  /** Key of `upstreams` in the configuration. */
  upstream: string;
  /** Skip a pod after this many failures in a row. */
  tolerated: number;
  /** `ip:port` each. */
  pods: string[];
}
