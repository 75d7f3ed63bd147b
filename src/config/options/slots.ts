/** Maps routes with `connections` and their upstreams to the limits of connection slots and the pods they are on. */

import type { RouteLimits } from "../../slots/limits.js";
import type { PodSource } from "../../slots/pods.js";
import type { ConnectionOptions } from "../../slots/slot-keeper-options.js";
import type { Config } from "../schema.js";
import { camelCase } from "./camel-case.js";

type Route = Config["routes"][number];
type Connections = NonNullable<Route["connections"]>;
type ConnectionsConfig = Pick<
  Connections,
  "max_per_pod" | "max_total" | "max_per_app" | "rate_per_second" | "burst" | "lease_s" | "on_store_failure"
> &
  Partial<Pick<Connections, "max_without_store">>;

/** A pod that connections of a route may be opened to. */
export interface Pod {
  route: string;
  upstream: string;
  /** host:port */
  pod: string;
  /** Maximum number of connections of the route to the pod. */
  limit: number;
}

/** The name of a route in limits, slots, metrics and the API. */
export function routeName({ host = "", path }: Pick<Route, "host" | "path">): string {
  return `${host}${path}`;
}

export function podName(target: string): string {
  return target.replace(/^https?:\/\//, "").replace(/\/$/, "");
}

export function slotOptions({ routes, lease }: Pick<Config, "routes" | "lease">): ConnectionOptions {
  return { routes: slotLimits(routes), timeoutMs: lease.timeout_ms };
}

/** The slot limits of all routes that accept connections, by route name. */
export function slotLimits(
  routes: readonly (Pick<Route, "path"> & { host?: string | undefined; connections?: ConnectionsConfig | undefined })[],
): Map<string, RouteLimits> {
  return new Map(
    routes.flatMap((route) =>
      route.connections === undefined ? [] : [[routeName(route), routeLimits(route.connections)] as const],
    ),
  );
}

/** Where the slots of routes are, by route name. */
export function slotPlacements({ routes }: Pick<Config, "routes">): Map<string, number> {
  return new Map(
    routes.flatMap((route) =>
      route.connections?.placement === undefined ? [] : [[routeName(route), route.connections.placement] as const],
    ),
  );
}

export function routeLimits(connections: ConnectionsConfig): RouteLimits {
  const { leaseS, burst, ...limits } = camelCase(connections);
  return { ...limits, burst: burst ?? Math.max(Math.ceil(limits.ratePerSecond), 1), leaseMs: leaseS * 1000 };
}

/** The pods of all routes that accept connections. A pod of several routes is listed for each: each has its own limit. */
export function podsOf(
  config: Pick<Config, "routes" | "upstreams">,
  discovered: (upstream: string) => string[] | undefined,
): Pod[] {
  return config.routes.flatMap((route) => {
    const { upstream, connections } = route;
    if (connections === undefined) return [];
    const pods = new Set(upstreamPods(config, upstream, discovered));
    return [...pods].map((pod) => ({ route: routeName(route), upstream, pod, limit: connections.max_per_pod }));
  });
}

/** The configured and the discovered targets of an upstream. */
export function upstreamPods(
  { upstreams }: Pick<Config, "upstreams">,
  upstream: string,
  discovered: (upstream: string) => string[] | undefined = () => undefined,
): string[] {
  return [...(upstreams[upstream]?.targets ?? []), ...(discovered(upstream) ?? [])].map(podName);
}

/** The upstreams whose targets come from DNS. */
export function podSources({ upstreams }: Config): Record<string, PodSource> {
  return Object.fromEntries(
    Object.entries(upstreams).flatMap(([name, { dns }]) => (dns === undefined ? [] : [[name, camelCase(dns)]])),
  );
}
