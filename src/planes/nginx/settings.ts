import type { PlaneSettings } from "../lua/settings.js";

export interface ServiceAddress {
  host: string;
  port: number;
}

/** A route that lets clients upgrade, as far as nginx must know: the limits that count are those of the service. */
export interface SocketRoute {
  /** Host and path, as the service calls it. */
  name: string;
  /** As the configuration calls it. */
  upstream: string;
  maxPerPod: number;
  maxTotal: number;
  maxPerApp: number;
  ratePerSecond: number;
  burst: number;
  onStoreFailure: string;
  /** A silent client is probed after it; 0: never. */
  pingMs: number;
  /** In lower case. */
  protocols: string[];
  /** A pod that fails so often in a row is passed over for so long. */
  tolerated: number;
  downMs: number;
  /** Each has an upstream block of its own. */
  pods: { pod: string; upstream: string }[];
}

export interface SocketSettings {
  /** One for all routes. */
  leaseMs: number;
  /** For a pod to answer the request. */
  responseMs: number;
  /** After so long connections are closed when nginx quits. */
  shutdownMs: number;
  routes: SocketRoute[];
}

export interface NginxSettings extends PlaneSettings {
  /** The control listeners of the services, in the order in which they are tried. */
  services: ServiceAddress[];
  connections: SocketSettings;
}
