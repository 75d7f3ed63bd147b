/** Where Envoy sends requests: the upstreams of a configuration, and the services that it asks. */
import { isIP } from "node:net";
import type { ServiceAddress } from "../../config/options/plane-options.js";
import type { Config } from "../../config/schema.js";
import { parseAddress } from "../../config/values.js";
import { NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { RenderError } from "../render-error.js";
import { serviceAddresses } from "../services.js";
import { schemeOf, upstreamName, usedUpstreams } from "../upstreams.js";
import type { EnvoyRenderOptions } from "./envoy.js";
import { discovery, endpoints, extension, type HttpVersion, seconds, upstreamProtocol } from "./words.js";

/** The services' control listeners: `POST /v1/sync`, `/v1/connections/…`. */
export const CONTROL_CLUSTER = "tollgate_control";
/** Their listeners for Envoy: rate limits and access logs over gRPC, `POST /v1/check`. */
export const SERVICE_CLUSTER = "tollgate_envoy";
/** More than any machine has, where Envoy's own limit of 1,024 would be met by 1,024 WebSockets. */
const NO_LIMIT = 1_000_000;
const SYSTEM_ROOTS = "/etc/ssl/certs/ca-certificates.crt";

type Upstream = Config["upstreams"][string];

export function clusters(config: Config, options: EnvoyRenderOptions): YamlSection[] {
  return [
    ...usedUpstreams(config).map(([id, upstream]) => upstreamCluster(config, id, upstream)),
    ...serviceClusters(config, options),
  ];
}

function upstreamCluster(config: Config, id: string, upstream: Upstream): YamlSection {
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
    "# By turns, as that finds another target at once where one fails; the one with the least to do would be the dead one again.":
      NOTE,
    lb_policy: "ROUND_ROBIN",
    connect_timeout: seconds(timeouts.connect_ms),
    load_assignment: endpoints(name, addresses, upstream.pass_host ? undefined : secure ? 443 : 80),
    "# Envoy's defaults are 1,024 of each for the whole cluster, and an answer of 503 beyond. Here requests wait in line.":
      NOTE,
    circuit_breakers: {
      thresholds: [
        {
          max_connections: NO_LIMIT,
          max_pending_requests: NO_LIMIT,
          max_requests: NO_LIMIT,
          max_retries: 64,
        },
      ],
      per_host_thresholds: [{ max_connections: connections + sockets }],
    },
    "# Only when none is well are those asked that are not.": NOTE,
    common_lb_config: { healthy_panic_threshold: { value: 1 } },
    ...passiveChecks(passive, sockets > 0),
    health_checks: active.path === undefined ? undefined : [healthCheck(active, active.path)],
    typed_extension_protocol_options: upstreamProtocol("http1", { idle_timeout: "60s" }),
    transport_socket: secure ? upstreamTls(id, addresses) : undefined,
  };
}

/**
 * Envoy takes a backend that closes a WebSocket for one that cannot be reached: after a few of them it would send nobody there.
 * The script knows better, and passes over pods by itself.
 */
function passiveChecks(passive: Upstream["passive"], hasSockets: boolean): YamlSection {
  if (hasSockets) {
    return {
      "# The script passes over targets that cannot be reached: Envoy would count closed WebSockets as well.": NOTE,
    };
  }
  return {
    "# Targets that cannot be reached are passed over for a time; what they answer is not judged.": NOTE,
    outlier_detection: {
      split_external_local_origin_errors: true,
      consecutive_local_origin_failure: passive.failures,
      base_ejection_time: seconds(passive.down_ms),
      max_ejection_time: seconds(Math.max(passive.down_ms * 10, 60_000)),
      interval: "1s",
      max_ejection_percent: 100,
      enforcing_consecutive_local_origin_failure: 100,
      enforcing_consecutive_5xx: 0,
      enforcing_consecutive_gateway_failure: 0,
      enforcing_success_rate: 0,
      enforcing_local_origin_success_rate: 0,
    },
  };
}

/** Each WebSocket has a connection of its own. */
function socketsPerTarget({ routes }: Config, id: string): number {
  const most = routes.map(({ upstream, connections }) => (upstream === id ? (connections?.max_per_pod ?? 0) : 0));
  return Math.max(0, ...most);
}

/** The pod of a slot is dialled by its address: that is how it is told from the others. */
function requireAddresses(id: string, { dns }: Upstream, addresses: ServiceAddress[]): void {
  const name = dns?.name ?? addresses.find(({ host }) => isIP(host) === 0)?.host;
  if (name === undefined) return;
  throw new RenderError(
    `upstreams.${id}: a route has connections, and Envoy finds the pod of a slot by its address, not as ${name}`,
  );
}

function targetAddresses(id: string, { targets, dns }: Upstream): ServiceAddress[] {
  if (dns !== undefined) return [{ host: dns.name, port: dns.port }];
  return targets.map((target) => {
    const at = parseAddress(target.replace(/^https?:\/\//, ""));
    if (at === undefined) throw new RenderError(`upstreams.${id}.targets: Envoy needs host:port, unlike ${target}`);
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

/** Certificates must be for the targets as they are written, whatever host the client asked for. */
function upstreamTls(id: string, addresses: ServiceAddress[]): YamlData {
  const hosts = [...new Set(addresses.map(({ host }) => host))];
  const names = hosts.filter((host) => isIP(host) === 0);
  if (names.length > 1) {
    throw new RenderError(`upstreams.${id}.targets: Envoy needs one name for all targets with https://, or addresses`);
  }
  const alternatives = hosts.map((host) => ({
    san_type: isIP(host) === 0 ? "DNS" : "IP_ADDRESS",
    matcher: { exact: host },
  }));
  return extension("envoy.transport_sockets.tls", "extensions.transport_sockets.tls.v3.UpstreamTlsContext", {
    sni: names[0],
    common_tls_context: {
      validation_context: { trusted_ca: { filename: SYSTEM_ROOTS }, match_typed_subject_alt_names: alternatives },
    },
  });
}

function serviceClusters(config: Config, options: EnvoyRenderOptions): YamlSection[] {
  const control = serviceAddresses(options.services, "--service", config.control.listen);
  const own = config.envoy.listen;
  if (own === undefined && options.envoyServices.length === 0) {
    throw new RenderError("envoy.listen is not set: say with --envoy-service where the service listens for Envoy");
  }
  const service = serviceAddresses(options.envoyServices, "--envoy-service", own ?? "");
  const word = "# The services: their control listeners, and their listeners for Envoy.";
  return [
    { [word]: NOTE, ...serviceCluster(config, CONTROL_CLUSTER, control, "http1") },
    serviceCluster(config, SERVICE_CLUSTER, service, "http2"),
  ];
}

/** A service that cannot be reached is passed over for a moment; when all are gone, all are tried. */
function serviceCluster(config: Config, name: string, addresses: ServiceAddress[], version: HttpVersion): YamlSection {
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
    outlier_detection: {
      split_external_local_origin_errors: true,
      consecutive_local_origin_failure: 2,
      base_ejection_time: "1s",
      max_ejection_time: "5s",
      interval: "0.5s",
      max_ejection_percent: 100,
      enforcing_consecutive_local_origin_failure: 100,
      enforcing_consecutive_5xx: 0,
      enforcing_consecutive_gateway_failure: 0,
      enforcing_success_rate: 0,
      enforcing_local_origin_success_rate: 0,
    },
    typed_extension_protocol_options: upstreamProtocol(version, { idle_timeout: "30s" }),
  };
}
