/** Maps routes, upstreams, limits and timeouts of the configuration to the options of the Node proxy. */
import type { CostProfile } from "../../core/cost.js";
import type { Config } from "../schema.js";
import { connections, requestLimits, timeouts, upstreamOptions as upstream } from "../sections/gateway.js";
import { type CamelCase, camelCase } from "./camel-case.js";
import { routeProfile } from "./profiles.js";
import { routeName } from "./slots.js";

/** Options that may change while the proxy runs. Their meaning and defaults are those of `sections/gateway.ts`. */
export interface ProxyOptions {
  routes: Route[];
  upstreams: Record<string, UpstreamOptions>;
  limits?: Partial<Limits>;
  timeouts?: Partial<Timeouts>;
  /** Networks (`10.0.0.0/8`) whose X-Forwarded-* and Forwarded headers are trusted. Default none. */
  trustedHops?: readonly string[];
  /** Headers that clients must not send to backends, in any spelling: app, user and API key. Default none. */
  identityHeaders?: readonly string[];
}

type RouteSection = Config["routes"][number];

export interface Route extends Pick<RouteSection, "path" | "host" | "upstream"> {
  /** The name under which slots are taken. Default: host and path. */
  name?: string;
  /** Its prices, instead of those of the app. */
  profile?: CostProfile | undefined;
  /** Header of the backend's responses that states their cost. */
  costHeader?: string | undefined;
  connections?: Partial<CamelCase<NonNullable<RouteSection["connections"]>>> | undefined;
}

type UpstreamSection = CamelCase<Config["upstreams"][string]>;

/** Without `targets` they are set by `setTargets`; until then there are none. */
export interface UpstreamOptions
  extends Partial<Pick<UpstreamSection, "targets" | "connections" | "queue" | "passHost">> {
  passive?: Partial<UpstreamSection["passive"]>;
  tls?: UpstreamSection["tls"];
  active?: Partial<Omit<UpstreamSection["active"], "path">> & { path: string };
}

export const defaultUpstream = camelCase(upstream.parse({}));
export const defaultConnections = camelCase(connections.parse({}));
export const defaultLimits = camelCase(requestLimits.parse({}));
export const defaultTimeouts = camelCase(timeouts.parse({}));

export type Limits = CamelCase<Config["request_limits"]>;
export type Timeouts = Omit<CamelCase<Config["timeouts"]>, "shutdownMs">;

export function proxyOptions({ routes, upstreams, request_limits, identity, ...config }: Config): ProxyOptions {
  return {
    routes: routes.map((route) => ({ ...camelCase(route), name: routeName(route), profile: routeProfile(route) })),
    upstreams: Object.fromEntries(
      Object.entries(upstreams).map(([name, upstream]) => [name, upstreamOptions(upstream)]),
    ),
    trustedHops: identity.trusted_hops,
    identityHeaders: [identity.app_header, identity.user_header, identity.api_key_header],
    limits: camelCase(request_limits),
    timeouts: camelCase(config.timeouts),
  };
}

function upstreamOptions(section: Config["upstreams"][string]): UpstreamOptions {
  const { targets, active, ...upstream } = camelCase(section);
  const { path } = active;
  return {
    ...upstream,
    ...(targets.length === 0 ? {} : { targets }),
    ...(path === undefined ? {} : { active: { ...active, path } }),
  };
}
