/** Routes with `connections` in the words of nginx: an upstream for each pod, and what the location of such a route includes. */
import type { NginxSocketOptions } from "../../config/options/plane-options.js";
import { routeName } from "../../config/options/slots.js";
import type { Config } from "../../config/schema.js";
import { ownHeaders, quoted } from "./includes.js";
import type { RenderOptions } from "./nginx.js";
import { forwardedHeaders } from "./servers.js";
import { schemeOf, upstreamBlocks, upstreamName, upstreamVariable } from "./upstreams.js";

type Route = Config["routes"][number];
type UpgradingRoute = Route & { connections: NonNullable<Route["connections"]> };

export function upgradingRoutes(config: Config): UpgradingRoute[] {
  return config.routes.filter((route): route is UpgradingRoute => route.connections !== undefined);
}

/** The nginx upstream block of one pod. */
export const podUpstream = (id: string, index: number) => `${upstreamName(id)}_pod_${index}`;

/** As many connections as one nginx may come to hold. */
export function mostSockets({ routes }: NginxSocketOptions): number {
  const most = routes.map(({ maxTotal, maxPerPod, pods }) => (maxTotal > 0 ? maxTotal : maxPerPod * pods.length));
  return Math.min(
    most.reduce((sum, one) => sum + one, 0),
    MOST_IN_ONE_NGINX,
  );
}

const MOST_IN_ONE_NGINX = 500_000;
/** What a connection takes in shared memory, with room to spare. */
const BYTES_PER_SOCKET = 512;

function dictMegabytes(sockets: number): number {
  let megabytes = 1;
  while (megabytes * 1_048_576 < 524_288 + sockets * BYTES_PER_SOCKET) megabytes *= 2;
  return megabytes;
}

/** For the http section; nothing where no route has connections. */
export function socketHttp(config: Config, settings: NginxSocketOptions, options: RenderOptions): string {
  if (settings.routes.length === 0) return "";
  const most = mostSockets(settings);
  const pods = new Map(settings.routes.flatMap((route) => route.pods.map(({ pod, upstream }) => [upstream, pod])));
  const blocks = [...pods].map(([upstream, pod]) => `upstream ${upstream} { server ${pod}; }\n`).join("");
  // With a whole nginx.conf, these are in there.
  const plain = options.includeOnly
    ? `${forwardedMaps("")}${upstreamBlocks({ ...config, routes: upgradingRoutes(config) }, options, [])}`
    : "";
  return `
# Who holds which connection, so that another worker frees what one that died held. Sized for ${most} connections.
lua_shared_dict tollgate_connections ${dictMegabytes(most)}m;
# An upgrade goes to the very pod that its slot is on.
${blocks}map $tollgate_pod $tollgate_pod_host {
    volatile;
    "" $proxy_host;
    default $tollgate_pod;
}
${plain}`;
}

/** A file of its own for each such route; no two have the same name. */
export function socketInclude(route: Route): string {
  const odd = (letter: string) => (letter === "/" ? "_" : `~${letter.charCodeAt(0)}`);
  const host = route.host === undefined ? "" : `-${route.host}`;
  return `tollgate-connections${host}${route.path.replace(/[^A-Za-z0-9.-]/g, odd)}.conf`;
}

export function socketLocation(config: Config, route: UpgradingRoute): string {
  const { upstream: id, connections } = route;
  const upstream = config.upstreams[id]!;
  const name = quoted(routeName(route), "routes[].path");
  const usual = upstream.dns === undefined ? upstreamName(id) : upstreamVariable(id);
  const idle = connections.idle_ms === 0 ? "365d" : `${connections.idle_ms}ms`;
  return `# Tollgate, for the location of the route ${name}: requests are limited as elsewhere, upgrades need a slot besides.
# Included alone: it has the proxy_pass of the route.
set $tollgate_upstream ${usual};
set $tollgate_pod "";
set $tollgate_connection "";
set $tollgate_protocols "";
access_by_lua_block { tollgate.upgrade(${name}) }
header_filter_by_lua_block { tollgate.answered() }

# Back to the access phase, once: where a pod cannot be reached, another one is asked for.
error_page 502 504 = $uri$is_args$args;

proxy_pass ${schemeOf(id, upstream)}://$tollgate_upstream;
proxy_http_version 1.1;
${forwardedHeaders(upstream.pass_host ? "$tollgate_host" : "$tollgate_pod_host", "", "$tollgate_connection")}proxy_set_header Upgrade $tollgate_protocols;

# A connection may be silent for so long (idle_ms); clients are probed by TCP after ping_ms, pods as the system is set.
proxy_read_timeout ${idle};
proxy_send_timeout ${idle};
proxy_socket_keepalive on;
proxy_buffering off;
${ownHeaders}`;
}

/** Of whom forwarded headers are believed, they are passed on; others' are replaced. */
export function forwardedMaps(indent: string): string {
  const text = `# Of whom forwarded headers are believed, they are passed on; others' are replaced.
map $tollgate_trusted $tollgate_forwarded_for {
    1 $proxy_add_x_forwarded_for;
    default $remote_addr;
}
map "$tollgate_trusted:$http_x_forwarded_proto" $tollgate_forwarded_proto {
    ~^1:(?<given>.+)$ $given;
    default $scheme;
}
map "$tollgate_trusted:$http_x_forwarded_host" $tollgate_forwarded_host {
    ~^1:(?<named>.+)$ $named;
    default $http_host;
}
# A client of HTTP/1.0 may give no Host; backends want one.
map $http_host $tollgate_host {
    "" $proxy_host;
    default $http_host;
}
`;
  return text.replace(/^(?=.)/gm, indent);
}
