/** The options of the nginx and Envoy planes. `tollgate render` writes them as a Lua table. */
import type { Network } from "../../core/address.js";
import type { CostProfile } from "../../core/cost.js";
import type { IdentityRules } from "../../core/identity.js";
import type { LeaseOptions } from "../../core/lease.js";
import type { AppLimits } from "../../core/limits.js";
import type { PathRules } from "../../core/path.js";
import type { HeaderOptions } from "../../core/response-headers.js";
import type { LimitRules } from "../../descriptors/limit-rules.js";
import type { PlacementLimits, PolicyWithoutStore } from "../../engine/slots/without-store.js";

export interface PlaneOptions {
  /** Empty: host name and process. In Envoy the name that all workers share; each appends its own suffix. */
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
  /** Values of limits with their own bucket: of one nginx, or of one Envoy worker. */
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

/** Options of Envoy's dynamic module. Envoy's clusters have the addresses of the services. */
export interface EnvoyModuleOptions extends PlaneOptions {
  /** The cluster of the services' control listeners. */
  cluster: string;
  /** Some route has options of its own. Only then the plane asks Envoy for the route. */
  hasRoutes: boolean;
  /** For a pod to answer an upgrade. */
  responseMs: number;
  socketRoutes: EnvoyModuleSocketRoute[];
}

/** The limits are used without the store only; otherwise the service decides. */
export interface EnvoyModuleSocketRoute extends SocketRouteLimits {
  /** Host and path. */
  name: string;
  /** Key of `upstreams` in the configuration. */
  upstream: string;
  /** Skip a pod after this many failures in a row. */
  tolerated: number;
  /** `ip:port` each. */
  pods: string[];
}

/** A trusted network, in words of 32 bits for fast comparison. */
export interface TrustedNetwork {
  /** One word for IPv4, four for IPv6. */
  words: number[];
  /** Length of the prefix in bits. */
  bits: number;
}

export interface EnvoySocketRoute extends SocketRouteLimits {
  /** `ip:port` each. */
  pods: string[];
}

/** By host and path. */
export interface EnvoySocketRoutes {
  [name: string]: EnvoySocketRoute | undefined;
}

/** Envoy's clusters have the addresses of the services. */
export interface EnvoyOptions extends PlaneOptions {
  clusters: {
    /** The control listeners of the services, for `POST /v1/sync` and `/v1/connections/…`. */
    control: string;
    /** Their listeners for Envoy, for `POST /v1/check`. */
    envoy: string;
  };
  /** Networks of `identity.trusted_hops`. */
  trustedHops: TrustedNetwork[];
  /**
   * A header that Envoy overwrites with the client's address; empty: Envoy overwrites no header. Asking Envoy for the address
   * instead costs as much as the whole decision.
   */
  addressHeader: string;
  /** Some route has `connections`. Only then the plane looks for upgrades, and Envoy must pass them on to it. */
  sockets: boolean;
  socketRoutes: EnvoySocketRoutes;
  /** Some route has options of its own. Only then the plane asks Envoy for the route. */
  hasRoutes: boolean;
  /** Workers of the Envoy. Each is a node; the share of a node without the store is divided by it. */
  workers: number;
  /**
   * Aborted exchanges of unknown length are settled from the access log, which must be configured. Otherwise their
   * estimate is final.
   */
  settleByAccessLog: boolean;
}
