/** Maps routes with `connections` and their upstreams to the limits of connection slots and the pods they are on. */

import type { PodSource } from "../../slots/pods.js";
import type { RouteLimits } from "../../slots/route-limits.js";
import type { RouteTargets } from "../../slots/route-targets.js";
import type { ConnectionOptions } from "../../slots/slot-keeper-options.js";
import type { Config } from "../schema.js";
import { camelCase } from "./camel-case.js";

type Route = Config["routes"][number];
type Connections = NonNullable<Route["connections"]>;
type ConnectionsConfig = Pick<
  Connections,
  "max_per_pod" | "max_total" | "max_per_app" | "rate_per_second" | "burst" | "lease_s" | "on_store_failure"
> &
  Partial<Pick<Connections, "max_without_store" | "max_per_client" | "burst_per_client">>;

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

/** A route as limits and prices find it. */
export function namedRoute<R extends Pick<Route, "host" | "path">>(route: R) {
  return { ...route, name: routeName(route), host: route.host ?? "" };
}

/** The upstream of a route: routes without one are rejected when the configuration is read. */
export function upstreamOf({ upstreams }: Pick<Config, "upstreams">, { upstream }: Pick<Route, "upstream">) {
  const found = upstreams[upstream];
  if (found === undefined) throw new Error(`${upstream} is not one of upstreams`);
  return found;
}

export function podName(target: string): string {
  return target.replace(/^https?:\/\//, "").replace(/\/$/, "");
}

export function slotOptions(config: Pick<Config, "routes" | "upstreams" | "lease">): ConnectionOptions {
  return { routes: slotLimits(config.routes, config.upstreams), timeoutMs: config.lease.timeout_ms };
}

type LimitedRoute = Pick<Route, "path"> & {
  host?: string | undefined;
  upstream?: string;
  connections?: ConnectionsConfig | undefined;
};

/** The slot limits of all routes that accept connections, by route name. */
export function slotLimits(
  routes: readonly LimitedRoute[],
  upstreams: Readonly<Record<string, { targets: readonly string[] }>> = {},
): Map<string, RouteLimits> {
  return new Map(
    routes.flatMap((route) => {
      const { connections, upstream = "" } = route;
      if (connections === undefined) return [];
      const limits = routeLimits(connections);
      const { maxPerClient = clientPart(capacity(limits, new Set(upstreams[upstream]?.targets).size)) } = limits;
      // Without a limit of its slots, a client is meant to be able to use the route alone.
      const { burstPerClient = maxPerClient === 0 ? 0 : clientPart(limits.burst) } = limits;
      return [[routeName(route), { ...limits, maxPerClient, burstPerClient }] as const];
    }),
  );
}

/** One client may take this part of a route's slots, and of its new connections. */
const CLIENT_PART = 1 / 4;
/** Many clients may share an address, so they may take this many, */
const LEAST_PER_CLIENT = 20;
/** but never more than this part: one client must not take all slots of a small route. */
const LARGEST_CLIENT_PART = 1 / 2;

function clientPart(all: number): number {
  const wanted = Math.max(Math.ceil(all * CLIENT_PART), LEAST_PER_CLIENT);
  return Math.max(Math.min(wanted, Math.floor(all * LARGEST_CLIENT_PART)), 1);
}

/** @param targets 0 if they are not known, because they come from DNS */
function capacity({ maxPerPod, maxTotal }: RouteLimits, targets: number): number {
  const onPods = maxPerPod * Math.max(targets, 1);
  return maxTotal === 0 ? onPods : Math.min(onPods, maxTotal);
}

/** The targets of all routes that accept connections, by route name. */
export function routeTargets({ routes, upstreams }: Pick<Config, "routes" | "upstreams">): Map<string, RouteTargets> {
  return new Map(
    routes.flatMap((route) => {
      if (route.connections === undefined) return [];
      const dnsPort = upstreams[route.upstream]?.dns?.port;
      return [[routeName(route), { pods: upstreamPods({ upstreams }, route.upstream), dnsPort }] as const];
    }),
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
