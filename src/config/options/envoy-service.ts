/** Maps the configuration to the options of the service for Envoys. */
import type { CostProfile } from "../../core/cost.js";
import type { HeaderOptions } from "../../core/refusals.js";
import { leaseOf } from "../../slots/limits.js";
import type { Config } from "../schema.js";
import { appLimits, headerOptions } from "./limits.js";
import { routeName, slotLimits, upstreamPods } from "./slots.js";

export interface EnvoyServiceOptions {
  access: { planeToken: string; allow: readonly string[] };
  /** Limit for a gRPC message or an HTTP body. */
  maxMessageBytes: number;
  /** Headers for the client in replies to rate limit requests; undefined: none, not even Retry-After. */
  headers: HeaderOptions | undefined;
  slotLeaseMs: number;
  /** Deadline of each store call. */
  timeoutMs: number;
  /** Cost profile by app. */
  profiles: ReadonlyMap<string, CostProfile>;
  /** All pods that a connection of the route may be on. */
  podsOf(route: string, discovered: (upstream: string) => string[] | undefined): string[];
}

export function envoyServiceOptions(config: Config): EnvoyServiceOptions {
  const { control, envoy, lease, routes } = config;
  const upstreams = new Map(routes.map((route) => [routeName(route), route.upstream]));
  return {
    access: { planeToken: control.plane_token, allow: control.allow },
    maxMessageBytes: envoy.max_message_bytes,
    headers: envoy.response_headers ? headerOptions(config) : undefined,
    slotLeaseMs: leaseOf(slotLimits(routes)),
    timeoutMs: lease.timeout_ms,
    profiles: new Map(appLimits(config).map(({ id, profile }) => [id, profile])),
    podsOf(route, discovered) {
      const upstream = upstreams.get(route);
      return upstream === undefined ? [] : upstreamPods(config, upstream, discovered);
    },
  };
}
