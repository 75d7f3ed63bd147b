/** Renders Envoy clusters: the upstreams of the configuration and the Tollgate services. */
import { isIP } from "node:net";
import type { ServiceAddress } from "../../config/options/plane-options.js";
import type { Config } from "../../config/schema.js";
import { parseAddress } from "../../config/values.js";
import { NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import {
  expectedNames,
  hostAndPort,
  RenderError,
  schemeOf,
  serviceAddresses,
  type Upstream,
  upstreamName,
  usedUpstreams,
} from "../common.js";
import { seconds, socketAddress, TYPES } from "./common.js";
import { CONTROL_CLUSTER, type EnvoyRenderOptions, SERVICE_CLUSTER } from "./options.js";
import { credentialFilters, serviceTls, upstreamTls } from "./secrets.js";

/** Replaces Envoy's default of 1,024, which 1,024 WebSockets would exhaust. */
const NO_LIMIT = 1_000_000;

export function clusters(config: Config, options: EnvoyRenderOptions): YamlSection[] {
  return [
    ...usedUpstreams(config).map(([id, upstream]) => upstreamCluster(config, id, upstream, options)),
    ...serviceClusters(config, options),
  ];
}

function upstreamCluster(config: Config, id: string, upstream: Upstream, options: EnvoyRenderOptions): YamlSection {
  const { timeouts } = config;
  const addresses = targetAddresses(id, upstream);
  const sockets = socketsPerTarget(config, id);
  if (sockets > 0) requireAddresses(id, upstream, addresses);
  const { passive, active, connections, dns } = upstream;
  const name = upstreamName(id);
  const secure = schemeOf(id, upstream, "Envoy") === "https";
  return {
    [`# upstreams.${id}`]: NOTE,
    name,
    type: dns === undefined ? discovery(addresses) : "STRICT_DNS",
    dns_refresh_rate: dns === undefined ? undefined : seconds(dns.interval_ms),
    "# Round robin finds another target when one fails. Least-request would choose the failed one again.": NOTE,
    lb_policy: "ROUND_ROBIN",
    connect_timeout: seconds(timeouts.connect_ms),
    ...smallPieces(config, options),
    load_assignment: endpoints(name, addresses, upstream.pass_host ? undefined : secure ? 443 : 80),
    "# By default Envoy allows 1,024 of each per cluster and answers 503 beyond. Here requests are queued.": NOTE,
    circuit_breakers: {
      thresholds: [
        { max_connections: NO_LIMIT, max_pending_requests: NO_LIMIT, max_requests: NO_LIMIT, max_retries: 64 },
      ],
      per_host_thresholds: [{ max_connections: connections + sockets }],
    },
    "# Unhealthy targets get requests only if no target is healthy.": NOTE,
    common_lb_config: { healthy_panic_threshold: { value: 1 } },
    ...passiveChecks(passive, sockets > 0),
    health_checks: active.path === undefined ? undefined : [healthCheck(active, active.path)],
    typed_extension_protocol_options: upstreamProtocol("http1", "60s"),
    transport_socket: secure ? upstreamTls(id, upstream, targetNames(id, upstream, addresses), options) : undefined,
  };
}

/** By default Envoy reads up to 1 MiB at once, and all of that has to be paid before any of it passes. */
function smallPieces({ apps }: Config, { mode }: EnvoyRenderOptions): YamlSection {
  if (mode !== "module" || Object.values(apps).every((app) => app.unknown_length === "charge")) return {};
  return {
    "# Responses without Content-Length are paid piece by piece, so pieces must be small.": NOTE,
    per_connection_buffer_limit_bytes: 65_536,
  };
}

/** Envoy counts a WebSocket closed by its backend as a connection failure, so with WebSockets the module does this. */
function passiveChecks(passive: Upstream["passive"], hasSockets: boolean): YamlSection {
  if (hasSockets) {
    return {
      "# No outlier_detection: it counts closed WebSockets as failures. The module skips unreachable targets itself.":
        NOTE,
    };
  }
  return {
    "# Unreachable targets get no requests for some time. Their responses are not judged.": NOTE,
    outlier_detection: ejectUnreachable({
      failures: passive.failures,
      baseMs: passive.down_ms,
      maxMs: Math.max(passive.down_ms * 10, 60_000),
      intervalMs: 1_000,
    }),
  };
}

/** The number of WebSockets per target; each uses one connection. */
function socketsPerTarget({ routes }: Config, id: string): number {
  const most = routes.map(({ upstream, connections }) => (upstream === id ? (connections?.max_per_pod ?? 0) : 0));
  return Math.max(0, ...most);
}

/** Envoy selects the pod of a slot by its address, so targets must not be host names. */
function requireAddresses(id: string, { dns }: Upstream, addresses: ServiceAddress[]): void {
  const name = dns?.name ?? addresses.find(({ host }) => isIP(host) === 0)?.host;
  if (name === undefined) return;
  throw new RenderError(
    `upstreams.${id}: a route with connections needs IP addresses as targets in Envoy, not ${name}`,
  );
}

function targetAddresses(id: string, { targets, dns }: Upstream): ServiceAddress[] {
  if (dns !== undefined) return [{ host: dns.name, port: dns.port }];
  return targets.map((target) => {
    const at = parseAddress(target.replace(/^https?:\/\//, ""));
    if (at === undefined) throw new RenderError(`upstreams.${id}.targets: Envoy needs host:port instead of ${target}`);
    return at;
  });
}

function healthCheck(active: Upstream["active"], path: string): YamlData {
  return {
    timeout: seconds(active.timeout_ms),
    interval: seconds(active.interval_ms),
    healthy_threshold: active.healthy_after,
    unhealthy_threshold: active.unhealthy_after,
    http_health_check: { path },
  };
}

/** Certificates must match the configured targets, not the Host of the request. */
function targetNames(id: string, { tls }: Upstream, addresses: ServiceAddress[]) {
  const hosts = addresses.map(({ host }) => host);
  return expectedNames(hosts, tls?.name, `upstreams.${id}.targets`);
}

/** The services: their control listeners, or in rls mode their listeners for Envoy. */
export function serviceClusters(config: Config, options: EnvoyRenderOptions): YamlSection[] {
  return [options.mode === "rls" ? envoyCluster(config, options) : controlCluster(config, options)];
}

function controlCluster(config: Config, options: EnvoyRenderOptions): YamlSection {
  const addresses = serviceAddresses(options.services, "--service", config.control.listen, "control.listen");
  return {
    "# The services: their control listeners.": NOTE,
    ...serviceCluster(config, { name: CONTROL_CLUSTER, addresses, version: "http1" }, options),
  };
}

function envoyCluster(config: Config, options: EnvoyRenderOptions): YamlSection {
  const own = config.envoy.listen;
  if (own === undefined && options.envoyServices.length === 0) {
    throw new RenderError("envoy.listen is not set: use --envoy-service to name the services' listeners for Envoy");
  }
  const addresses = serviceAddresses(options.envoyServices, "--envoy-service", own ?? "", "envoy.listen");
  return {
    "# The services: their listeners for Envoy.": NOTE,
    ...serviceCluster(config, { name: SERVICE_CLUSTER, addresses, version: "http2" }, options),
  };
}

/** Unreachable services are skipped for a moment; if all are unreachable, all are tried. */
function serviceCluster(
  config: Config,
  { name, addresses, version }: { name: string; addresses: ServiceAddress[]; version: HttpVersion },
  options: EnvoyRenderOptions,
): YamlSection {
  const section = name === CONTROL_CLUSTER ? config.control : config.envoy;
  const hosts = addresses.map(({ host }) => host);
  const tls = () => serviceTls(expectedNames(hosts, options.serviceTls?.name, "the services"), options);
  return {
    name,
    type: discovery(addresses),
    lb_policy: "ROUND_ROBIN",
    connect_timeout: seconds(Math.min(config.timeouts.connect_ms, config.lease.timeout_ms)),
    load_assignment: endpoints(name, addresses),
    circuit_breakers: {
      thresholds: [{ max_connections: NO_LIMIT, max_pending_requests: NO_LIMIT, max_requests: NO_LIMIT }],
    },
    common_lb_config: { healthy_panic_threshold: { value: 1 } },
    outlier_detection: ejectUnreachable({ failures: 2, baseMs: 1_000, maxMs: 5_000, intervalMs: 500 }),
    typed_extension_protocol_options: upstreamProtocol(version, "30s", credentialFilters(config, options)),
    transport_socket: section.tls === undefined ? undefined : tls(),
  };
}

/** With a `defaultPort`, requests carry the address of the endpoint as Host instead of the client's. */
function endpoints(cluster: string, addresses: readonly ServiceAddress[], defaultPort?: number): YamlData {
  const named = (address: ServiceAddress) =>
    defaultPort === undefined ? undefined : hostAndPort(address).replace(new RegExp(`:${defaultPort}$`), "");
  return {
    cluster_name: cluster,
    endpoints: [
      {
        lb_endpoints: addresses.map((address) => ({
          endpoint: { hostname: named(address), address: socketAddress(address) },
        })),
      },
    ],
  };
}

/** Host names are resolved repeatedly, addresses never. */
function discovery(addresses: readonly ServiceAddress[]): "STATIC" | "STRICT_DNS" {
  return addresses.every(({ host }) => isIP(host) !== 0) ? "STATIC" : "STRICT_DNS";
}

type HttpVersion = "http1" | "http2";

function upstreamProtocol(version: HttpVersion, idle: string, filters?: YamlSection[]): YamlData {
  const explicit: YamlData =
    version === "http1"
      ? { http_protocol_options: {} }
      : {
          http2_protocol_options: {
            "# Detects within seconds a service that disappeared without closing the connection.": NOTE,
            connection_keepalive: { interval: "10s", timeout: "3s" },
          },
        };
  return {
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
      "@type": `${TYPES}.extensions.upstreams.http.v3.HttpProtocolOptions`,
      common_http_protocol_options: { idle_timeout: idle },
      explicit_http_config: explicit,
      http_filters: filters,
    },
  };
}

/** Ejects endpoints that cannot be reached. Their responses are not judged. */
function ejectUnreachable(times: { failures: number; baseMs: number; maxMs: number; intervalMs: number }) {
  return {
    split_external_local_origin_errors: true,
    consecutive_local_origin_failure: times.failures,
    base_ejection_time: seconds(times.baseMs),
    max_ejection_time: seconds(times.maxMs),
    interval: seconds(times.intervalMs),
    max_ejection_percent: 100,
    enforcing_consecutive_local_origin_failure: 100,
    enforcing_consecutive_5xx: 0,
    enforcing_consecutive_gateway_failure: 0,
    enforcing_success_rate: 0,
    enforcing_local_origin_success_rate: 0,
  };
}
