/** Maps routes, upstreams, limits and timeouts of the configuration to the options of the Node proxy. */
import type { Config } from "../schema.js";
import type { ProxyOptions, Route, UpstreamOptions } from "./proxy-options.js";
import { routeName } from "./slots.js";

export function proxyOptions({ routes, upstreams, limits, timeouts, identity }: Config): ProxyOptions {
  return {
    routes: routes.map(proxyRoute),
    upstreams: Object.fromEntries(
      Object.entries(upstreams).map(([name, upstream]) => [name, upstreamOptions(upstream)]),
    ),
    trustedHops: identity.trusted_hops,
    limits: { headerBytes: limits.header_bytes, headerCount: limits.header_count, bodyBytes: limits.body_bytes },
    timeouts: {
      connectMs: timeouts.connect_ms,
      responseMs: timeouts.response_ms,
      bodyIdleMs: timeouts.body_idle_ms,
      headersMs: timeouts.headers_ms,
      requestMs: timeouts.request_ms,
      keepAliveMs: timeouts.keep_alive_ms,
      lingerMs: timeouts.linger_ms,
    },
  };
}

function proxyRoute(route: Config["routes"][number]): Route {
  const { path, host, upstream, connections } = route;
  return {
    path,
    upstream,
    name: routeName(route),
    ...(host === undefined ? {} : { host }),
    ...(connections === undefined
      ? {}
      : {
          connections: {
            protocols: [...connections.protocols],
            idleMs: connections.idle_ms,
            pingMs: connections.ping_ms,
          },
        }),
  };
}

function upstreamOptions(upstream: Config["upstreams"][string]): UpstreamOptions {
  const { targets, connections, pass_host, passive, active } = upstream;
  return {
    ...(targets.length === 0 ? {} : { targets: [...targets] }),
    connections,
    passHost: pass_host,
    passive: { failures: passive.failures, downMs: passive.down_ms },
    ...(active.path === undefined
      ? {}
      : {
          active: {
            path: active.path,
            intervalMs: active.interval_ms,
            timeoutMs: active.timeout_ms,
            healthyAfter: active.healthy_after,
            unhealthyAfter: active.unhealthy_after,
          },
        }),
  };
}
