/** A configuration in the words of what the service runs: the proxy, the connections and the coordinator. */
import type { Config } from "../../config/schema.js";
import type { ProxySettings, Route, UpstreamOptions } from "../../planes/node/options.js";
import type { CoordinatorSettings } from "../../quota/coordinator.js";
import { connectionRoutes, leaseOf } from "../../slots/limits.js";
import type { PodSource } from "../../slots/pods.js";
import type { ConnectionOptions } from "../../slots/slot-keeper-options.js";
import type { Pod } from "../operations/operations.js";

export function coordinatorSettings({ cluster }: Config): Omit<CoordinatorSettings, "checkMs"> {
  return {
    reconcileMs: cluster.reconcile_interval_ms,
    cooldownMs: cluster.emergency_cooldown_ms,
    automaticEmergency: cluster.automatic_emergency,
    driftTolerance: cluster.reconcile_tolerance,
  };
}

export function keeperSettings({ routes, lease }: Config): ConnectionOptions {
  return { routes: connectionRoutes(routes), timeoutMs: lease.timeout_ms };
}

/** The pods that connections are counted on, with the highest limit where several routes lead to one. */
export function podsOf(config: Config, discovered: (upstream: string) => string[] | undefined): Pod[] {
  const leaseMs = leaseOf(keeperSettings(config).routes);
  const pods = new Map<string, Pod>();
  for (const { upstream, connections } of config.routes) {
    if (connections === undefined) continue;
    for (const target of [...(config.upstreams[upstream]?.targets ?? []), ...(discovered(upstream) ?? [])]) {
      const pod = target.replace(/^https?:\/\//, "");
      const limit = Math.max(connections.max_per_pod, pods.get(pod)?.limit ?? 0);
      pods.set(pod, { upstream, pod, limit, leaseMs });
    }
  }
  return [...pods.values()];
}

/** The upstreams whose targets are looked up. */
export function podSources({ upstreams }: Config): Record<string, PodSource> {
  return Object.fromEntries(
    Object.entries(upstreams).flatMap(([name, { dns }]) =>
      dns === undefined ? [] : [[name, { name: dns.name, port: dns.port, intervalMs: dns.interval_ms }]],
    ),
  );
}

export function proxySettings({ routes, upstreams, limits, timeouts, identity }: Config): ProxySettings {
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

function proxyRoute({ path, host, upstream, connections }: Config["routes"][number]): Route {
  return {
    ...{ path, upstream, name: `${host ?? ""}${path}` },
    ...(host === undefined ? {} : { host }),
    ...(connections === undefined
      ? {}
      : {
          connections: {
            ...{ protocols: [...connections.protocols], idleMs: connections.idle_ms, pingMs: connections.ping_ms },
          },
        }),
  };
}

function upstreamOptions(upstream: Config["upstreams"][string]): UpstreamOptions {
  const { targets, connections, pass_host, passive, active } = upstream;
  const { path, interval_ms, timeout_ms, healthy_after, unhealthy_after } = active;
  return {
    ...(targets.length === 0 ? {} : { targets: [...targets] }),
    connections,
    passHost: pass_host,
    passive: { failures: passive.failures, downMs: passive.down_ms },
    ...(path === undefined
      ? {}
      : {
          active: {
            ...{ path, intervalMs: interval_ms, timeoutMs: timeout_ms },
            ...{ healthyAfter: healthy_after, unhealthyAfter: unhealthy_after },
          },
        }),
  };
}
