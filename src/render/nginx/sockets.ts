/** Renders routes with `connections`: an upstream for each pod and the include for the route's location. */

import { headerOptions } from "../../config/options/limiter.js";
import type { NginxSocketOptions } from "../../config/options/plane-options.js";
import { routeName, upstreamOf } from "../../config/options/slots.js";
import type { Config } from "../../config/schema.js";
import { schemeOf, type UpgradingRoute, upgradingRoutes, upstreamName } from "../common.js";
import { dictMegabytes, forwardedHeaders, forwardedMaps, hiddenHeaders, quoted } from "./directives.js";
import type { RenderOptions } from "./options.js";
import { upstreamTls } from "./service-tls.js";
import { proxyTarget, upstreamBlocks } from "./upstreams.js";

/** The nginx upstream block of one pod. */
export const podUpstream = (id: string, index: number) => `${upstreamName(id)}_pod_${index}`;

const MAX_SOCKETS = 500_000;
/** Shared memory per connection, with reserve. */
const BYTES_PER_SOCKET = 512;
const MIN_BYTES = 524_288;

/** The number of connections that one nginx can hold. */
export function maxSockets({ routes }: NginxSocketOptions): number {
  const perRoute = routes.map(({ maxTotal, maxPerPod, pods }) => (maxTotal > 0 ? maxTotal : maxPerPod * pods.length));
  const sum = perRoute.reduce((total, one) => total + one, 0);
  return Math.min(sum, MAX_SOCKETS);
}

/** Directives for the http section; empty if no route has connections. */
export function socketHttp(config: Config, sockets: NginxSocketOptions, options: RenderOptions): string {
  if (sockets.routes.length === 0) return "";
  const most = maxSockets(sockets);
  const pods = new Map(sockets.routes.flatMap((route) => route.pods.map((pod) => [route.podUpstreams[pod], pod])));
  const blocks = [...pods].map(([upstream, pod]) => `upstream ${upstream} { server ${pod}; }\n`).join("");
  // A complete nginx.conf has these itself.
  const plain = options.includeOnly
    ? `${forwardedMaps("")}${upstreamBlocks({ ...config, routes: upgradingRoutes(config) }, options, [])}`
    : "";
  return `
# The slots held by each worker, so that the others can release those of a dead worker. Sized for ${most} connections.
lua_shared_dict tollgate_connections ${dictMegabytes(1, MIN_BYTES + most * BYTES_PER_SOCKET)}m;
# An upgraded connection goes to the pod on which its slot was acquired.
# The includes of routes set the pod. It is defined here as well, so that nginx starts without them.
${blocks}map "" $tollgate_pod {
    default "";
}
map $tollgate_pod $tollgate_pod_host {
    volatile;
    "" $proxy_host;
    default $tollgate_pod;
}
${plain}`;
}

export function socketLocation(config: Config, route: UpgradingRoute): string {
  const { upstream: id, connections } = route;
  const upstream = upstreamOf(config, route);
  const name = quoted(routeName(route), "routes[].path");
  const idle = connections.idle_ms === 0 ? "365d" : `${connections.idle_ms}ms`;
  return `# Tollgate: include this in the location of the route ${name}. Requests are limited as usual, upgrades also need a slot.
# Do not include other Tollgate files there: this one contains the route's proxy_pass.
set $tollgate_upstream ${proxyTarget(id, upstream)};
set $tollgate_pod "";
set $tollgate_connection "";
set $tollgate_protocols "";
access_by_lua_block { tollgate.upgrade(${name}) }
header_filter_by_lua_block { tollgate.answered() }

# If a pod cannot be reached, run the access phase once more to get a slot on another pod.
error_page 502 504 = $uri$is_args$args;

proxy_pass ${schemeOf(id, upstream, "nginx")}://$tollgate_upstream;
proxy_http_version 1.1;
${upstreamTls(id, upstream, "")}${forwardedHeaders(upstream.pass_host ? "$tollgate_host" : "$tollgate_pod_host", "", "$tollgate_connection")}proxy_set_header Upgrade $tollgate_protocols;

# Maximum idle time of a connection (idle_ms). TCP keep-alive probes clients by so_keepalive of the listen directive
# (ping_ms), pods as the system is set.
proxy_read_timeout ${idle};
proxy_send_timeout ${idle};
proxy_socket_keepalive on;
proxy_buffering off;
${hiddenHeaders(headerOptions(config))}`;
}
