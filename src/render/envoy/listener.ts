/** Where clients arrive: the listener, and what Envoy's connection manager does with a request before and after the route. */
import type { Config } from "../../config/schema.js";
import { NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { addressOf } from "../services.js";
import { accessLog } from "./access-log.js";
import { fromFile, ROUTES } from "./dynamic.js";
import type { EnvoyRenderOptions } from "./envoy.js";
import { httpFilters } from "./filters.js";
import { localReplies } from "./local-replies.js";
import { ROUTE_CONFIG, routeConfig } from "./routes.js";
import { extension, seconds, socketAddress } from "./words.js";

/** So much longer than a balancer's a connection is kept, so that the balancer is always the one who closes it. */
const LONGER_MS = 15_000;

/** Without any range Envoy would take all private networks, and leave them their x-request-id. */
const NO_ADDRESS = { address_prefix: "255.255.255.255", prefix_len: 32 };

export function listener(config: Config, options: EnvoyRenderOptions, warnings: string[]): YamlSection {
  return {
    name: "tollgate",
    address: socketAddress(addressOf(options.listen ?? config.listen, "--listen")),
    "# Bytes that a slow reader lets pile up, on either side.": NOTE,
    per_connection_buffer_limit_bytes: 65_536,
    ...keepAlive(config),
    filter_chains: [
      {
        filters: [
          extension(
            "envoy.filters.network.http_connection_manager",
            "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            connectionManager(config, options, warnings),
          ),
        ],
        transport_socket: options.tls === undefined ? undefined : downstreamTls(options.tls),
      },
    ],
  };
}

/** The shortest of all: a client that is gone without a word is noticed within two of them. */
function keepAlive({ routes }: Config): YamlSection {
  const probes = routes.flatMap(({ connections }) => (connections === undefined ? [] : [connections.ping_ms]));
  const wanted = probes.filter((ms) => ms > 0);
  if (wanted.length === 0) return {};
  const idle = Math.max(Math.ceil(Math.min(...wanted) / 1000), 1);
  const option = (description: string, level: number, name: number, value: number): YamlData => ({
    ...{ description, level, name, int_value: value, state: "STATE_LISTENING" },
  });
  return {
    "# TCP asks silent clients whether they are still there (connections.ping_ms), so that the slots of those that vanished are freed.":
      NOTE,
    socket_options: [
      option("SO_KEEPALIVE", 1, 9, 1),
      option("TCP_KEEPIDLE", 6, 4, idle),
      option("TCP_KEEPINTVL", 6, 5, Math.max(Math.floor(idle / 3), 1)),
      option("TCP_KEEPCNT", 6, 6, 3),
    ],
  };
}

function connectionManager(config: Config, options: EnvoyRenderOptions, warnings: string[]): YamlSection {
  const { timeouts, limits } = config;
  if (limits.body_bytes !== Number.MAX_SAFE_INTEGER) {
    warnings.push(
      "limits.body_bytes: Envoy refuses bodies that say they are larger; those that do not say are not limited",
    );
  }
  return {
    stat_prefix: "tollgate",
    ...clientAddress(options),
    "# Nobody is inside: whatever x-request-id a client sends, each request gets its own, by which the script knows it again.":
      NOTE,
    internal_address_config: { cidr_ranges: [NO_ADDRESS] },
    generate_request_id: true,
    "# Backends name themselves, as they would without Envoy.": NOTE,
    server_header_transformation: "PASS_THROUGH",
    ...paths(config),
    "# What a client may take in time and size.": NOTE,
    request_headers_timeout: seconds(timeouts.headers_ms),
    request_timeout: seconds(timeouts.request_ms),
    "# Without a byte moving either way. Envoy's default of five minutes would also cut quiet WebSockets: their routes say otherwise.":
      NOTE,
    stream_idle_timeout: seconds(Math.max(timeouts.response_ms, timeouts.body_idle_ms)),
    drain_timeout: seconds(Math.max(timeouts.shutdown_ms, 1_000)),
    max_request_headers_kb: Math.min(Math.ceil(limits.header_bytes / 1024), 8_192),
    common_http_protocol_options: {
      idle_timeout: seconds(keepAliveMs(config, options, warnings)),
      max_headers_count: limits.header_count,
    },
    http_protocol_options: { accept_http_10: true, default_host_for_http_10: "localhost" },
    "# As much as one client of HTTP/2 may have under way.": NOTE,
    http2_protocol_options: {
      max_concurrent_streams: 100,
      initial_stream_window_size: 65_536,
      initial_connection_window_size: 1_048_576,
    },
    ...upgrades(config, options, warnings),
    ...localReplies(),
    ...accessLog(config, options),
    ...(options.dynamic === true
      ? { rds: { route_config_name: ROUTE_CONFIG, config_source: fromFile(options.path, ROUTES) } }
      : { route_config: routeConfig(config, options) }),
    http_filters: httpFilters(config, options),
  };
}

function clientAddress({ balancer }: EnvoyRenderOptions): YamlSection {
  if (balancer === undefined) {
    return {
      "# The client is who connects. X-Forwarded-For is not believed, only passed on.": NOTE,
      use_remote_address: true,
    };
  }
  const { hops } = balancer;
  return {
    [`# In front ${hops === 1 ? "is a proxy that appends" : `are ${hops} proxies that append`} to X-Forwarded-For: the client is the ${hops === 1 ? "last" : `${hops}th last`} address there.`]:
      NOTE,
    use_remote_address: true,
    xff_num_trusted_hops: hops,
  };
}

/** A path that could be read in two ways must not be read in one way here and in the other by the backend. */
function paths({ routes }: Config): YamlSection {
  return {
    "# Paths are made plain before a route is sought. With several routes, %2F could hide which one is meant.": NOTE,
    normalize_path: true,
    path_with_escaped_slashes_action: routes.length > 1 ? "REJECT_REQUEST" : "KEEP_UNCHANGED",
  };
}

function keepAliveMs({ timeouts }: Config, { balancer }: EnvoyRenderOptions, warnings: string[]): number {
  const wanted = timeouts.keep_alive_ms;
  if (balancer === undefined || wanted > balancer.idleMs) return wanted;
  const longer = balancer.idleMs + LONGER_MS;
  warnings.push(`timeouts.keep_alive_ms: ${longer} instead, which is longer than the balancer keeps idle connections`);
  return longer;
}

/** Allowed on all routes where one has connections: the script refuses them on the others. Where none has, Envoy does. */
function upgrades({ routes }: Config, { mode }: EnvoyRenderOptions, warnings: string[]): YamlSection {
  const protocols = new Set(routes.flatMap(({ connections }) => connections?.protocols ?? []));
  if (protocols.size === 0) return {};
  if (mode === "rls") {
    warnings.push("routes: with --mode rls connections are not limited, and upgrades are refused");
    return {};
  }
  protocols.add("websocket");
  return {
    "# The script answers 501 on routes without connections.": NOTE,
    upgrade_configs: [...protocols].map((protocol) => ({ upgrade_type: protocol })),
  };
}

function downstreamTls({ certificate, key }: { certificate: string; key: string }): YamlData {
  return extension("envoy.transport_sockets.tls", "extensions.transport_sockets.tls.v3.DownstreamTlsContext", {
    common_tls_context: {
      tls_params: { tls_minimum_protocol_version: "TLSv1_2" },
      alpn_protocols: ["h2", "http/1.1"],
      tls_certificates: [{ certificate_chain: { filename: certificate }, private_key: { filename: key } }],
    },
  });
}
