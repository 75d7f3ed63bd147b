/** Renders the listener for clients and its HTTP connection manager. */
import type { Config } from "../../config/schema.js";
import { gatewayRefusal, type Refusal } from "../../core/refusals.js";
import { NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { keepAliveSeconds, listenAddress } from "../common.js";
import { extension, fromFile, seconds, socketAddress } from "./common.js";
import { httpFilters } from "./filters.js";
import { type EnvoyRenderOptions, ROUTES } from "./options.js";
import { envoyPathRules } from "./rejected-paths.js";
import { NO_ROUTE, ROUTE_CONFIG, routeConfig } from "./routes.js";
import { downstreamTls } from "./secrets.js";

/** Idle connections live longer here than in the balancer, so that the balancer always closes them first. */
const KEEP_LONGER_MS = 15_000;

/** Without any range Envoy treats all private networks as internal and trusts their x-request-id. */
const NO_ADDRESS = { address_prefix: "255.255.255.255", prefix_len: 32 };

export function listener(config: Config, options: EnvoyRenderOptions, warnings: string[]): YamlSection {
  return {
    name: "tollgate",
    address: socketAddress(listenAddress(config, options.listen)),
    "# Buffer per connection and direction for slow readers.": NOTE,
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
        transport_socket: options.tls === undefined ? undefined : downstreamTls(options),
      },
    ],
  };
}

/** TCP keep-alive with the shortest ping_ms of all routes detects vanished clients within twice that time. */
function keepAlive(config: Config): YamlSection {
  const idle = keepAliveSeconds(config);
  if (idle === undefined) return {};
  const option = (description: string, level: number, name: number, value: number): YamlData => {
    return { description, level, name, int_value: value, state: "STATE_LISTENING" };
  };
  return {
    "# TCP keep-alive (connections.ping_ms) detects vanished clients, so that their slots are released.": NOTE,
    socket_options: [
      option("SO_KEEPALIVE", 1, 9, 1),
      option("TCP_KEEPIDLE", 6, 4, idle),
      option("TCP_KEEPINTVL", 6, 5, Math.max(Math.floor(idle / 3), 1)),
      option("TCP_KEEPCNT", 6, 6, 3),
    ],
  };
}

function connectionManager(config: Config, options: EnvoyRenderOptions, warnings: string[]): YamlSection {
  const { timeouts, request_limits: limits } = config;
  if (limits.body_bytes !== Number.MAX_SAFE_INTEGER && options.mode !== "module") {
    warnings.push(
      "request_limits.body_bytes: Envoy rejects requests by Content-Length; bodies without one are not limited",
    );
  }
  return {
    stat_prefix: "tollgate",
    ...clientAddress(options),
    ...pathSettings(config),
    "# No client is internal: every request gets a new x-request-id.": NOTE,
    internal_address_config: { cidr_ranges: [NO_ADDRESS] },
    generate_request_id: true,
    "# Keep the Server header of the backend.": NOTE,
    server_header_transformation: "PASS_THROUGH",
    "# Limits on the time and size of client requests.": NOTE,
    request_headers_timeout: seconds(timeouts.headers_ms),
    request_timeout: seconds(timeouts.request_ms),
    "# Maximum time without traffic in either direction. Routes with WebSockets override it.": NOTE,
    stream_idle_timeout: seconds(Math.max(timeouts.response_ms, timeouts.body_idle_ms)),
    drain_timeout: seconds(Math.max(timeouts.shutdown_ms, 1_000)),
    max_request_headers_kb: Math.min(Math.ceil(limits.header_bytes / 1024), 8_192),
    common_http_protocol_options: {
      idle_timeout: seconds(keepAliveMs(config, options, warnings)),
      max_headers_count: limits.header_count,
    },
    http_protocol_options: { accept_http_10: true, default_host_for_http_10: "localhost" },
    "# Limits of one HTTP/2 connection.": NOTE,
    http2_protocol_options: {
      max_concurrent_streams: 100,
      initial_stream_window_size: 65_536,
      initial_connection_window_size: 1_048_576,
    },
    ...upgrades(config, options, warnings),
    ...localReplies(),
    ...(options.dynamic
      ? { rds: { route_config_name: ROUTE_CONFIG, config_source: fromFile(options.path, ROUTES) } }
      : { route_config: routeConfig(config, options) }),
    http_filters: httpFilters(config, options),
  };
}

/** What the decision needs from a connection manager that was configured by someone else. */
export function requiredSettings(config: Config, options: EnvoyRenderOptions, warnings: string[]): YamlSection {
  return { ...clientAddress(options), ...pathSettings(config), ...upgrades(config, options, warnings) };
}

function pathSettings(config: Config): YamlSection {
  return {
    "# Routes, limits and backends see the same path and host. request_limits.encoded_slashes: %2F is kept or rejected.":
      NOTE,
    normalize_path: true,
    merge_slashes: true,
    path_with_escaped_slashes_action: envoyPathRules(config).keepsEncodedSlashes ? "KEEP_UNCHANGED" : "REJECT_REQUEST",
    strip_trailing_host_dot: true,
  };
}

function clientAddress({ balancer }: EnvoyRenderOptions): YamlSection {
  const hops = balancer?.hops;
  const note =
    hops === undefined
      ? "# The client address is that of the connection. X-Forwarded-For is passed on but not trusted."
      : `# Proxies in front that append to X-Forwarded-For: ${hops}. The client is address ${hops} from the end.`;
  return { [note]: NOTE, use_remote_address: true, xff_num_trusted_hops: hops };
}

function keepAliveMs({ timeouts }: Config, { balancer }: EnvoyRenderOptions, warnings: string[]): number {
  const wanted = timeouts.keep_alive_ms;
  if (balancer === undefined || wanted > balancer.idleMs) return wanted;
  const longer = balancer.idleMs + KEEP_LONGER_MS;
  warnings.push(`timeouts.keep_alive_ms: raised to ${longer}, because it must exceed the idle timeout of the balancer`);
  return longer;
}

/** If a route has connections, Envoy allows upgrades on all routes and the module rejects them on the others. */
function upgrades({ routes }: Config, { mode, form }: EnvoyRenderOptions, warnings: string[]): YamlSection {
  const protocols = new Set(routes.flatMap(({ connections }) => connections?.protocols ?? []));
  if (protocols.size === 0) return {};
  if (mode === "rls") {
    const effect = form === undefined || form === "bootstrap" ? "so upgrades are refused" : "only the upgrade requests";
    warnings.push(`routes: --mode rls cannot limit connections, ${effect}`);
    return {};
  }
  protocols.add("websocket");
  return {
    "# On routes without connections the module answers 501.": NOTE,
    upgrade_configs: [...protocols].map((protocol) => ({ upgrade_type: protocol })),
  };
}

/** Excludes other 403 responses, such as the module's for an unknown app. */
const REJECTED = 'response.code_details == "upgrade_failed"';

/** Replaces responses that Envoy generates itself by those of the gateway. */
function localReplies(): YamlSection {
  return {
    "# Replaces Envoy's 403 for upgrades that no route offers.": NOTE,
    local_reply_config: {
      mappers: [
        mapper(`${REJECTED} && xds.route_name == "${NO_ROUTE}"`, gatewayRefusal(NO_ROUTE)),
        mapper(REJECTED, gatewayRefusal("unsupported_upgrade")),
      ],
    },
  };
}

function mapper(expression: string, { status, body }: Refusal): YamlData {
  const wasForbidden = { comparison: { op: "EQ", value: { default_value: 403, runtime_key: "tollgate.none" } } };
  const cel = extension(
    "envoy.access_loggers.extension_filters.cel",
    "extensions.access_loggers.filters.cel.v3.ExpressionFilter",
    { expression },
  );
  return {
    filter: { and_filter: { filters: [{ status_code_filter: wasForbidden }, { extension_filter: cel }] } },
    status_code: status,
    body: { inline_string: body },
    body_format_override: {
      text_format_source: { inline_string: "%LOCAL_REPLY_BODY%" },
      content_type: "application/json",
    },
    headers_to_add: [{ header: { key: "connection", value: "close" }, append_action: "OVERWRITE_IF_EXISTS_OR_ADD" }],
  };
}
