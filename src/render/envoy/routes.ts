/** Renders routes: host first, then the longest prefix, because Envoy takes the first match. */

import { headerOptions } from "../../config/options/limiter.js";
import { hiddenHeaders } from "../../config/options/planes.js";
import { routeName, upstreamOf } from "../../config/options/slots.js";
import type { Config } from "../../config/schema.js";
import { DEFAULT_APP } from "../../core/identity.js";
import { gatewayRefusal, type Refusal } from "../../core/refusals.js";
import { DRY_RUN_HEADER, reservedHeaders } from "../../core/response-headers.js";
import { NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { type Route, routesByHost, upstreamName } from "../common.js";
import { extension, seconds } from "./common.js";
import { MODULE } from "./filters.js";
import type { EnvoyRenderOptions } from "./options.js";
import { envoyPathRules, rejectedPaths } from "./rejected-paths.js";

export const ROUTE_CONFIG = "tollgate";
/** The name of the route that matches if no other does, and its response. */
export const NO_ROUTE = "no_route";

export function routeConfig(config: Config, options: EnvoyRenderOptions): YamlSection {
  const { anyHost, hosts } = routesByHost(config);
  const virtualHost = (name: string, domain: string, routes: Route[]): YamlData => ({
    name,
    domains: [domain],
    routes: [
      ...(domain === "*" ? [twoHosts(options)] : []),
      trace(options),
      invalidPath(config, options),
      ...tooLarge(config, options),
      ...routes.map((route) => routeTo(config, route, options)),
      ...rest(routes, options),
    ],
  });
  const named = [...hosts].map(([host, own]) => virtualHost(host, host, [...byLength(own), ...byLength(anyHost)]));
  return {
    name: ROUTE_CONFIG,
    ignore_port_in_host_matching: true,
    ...headerRules(config, options),
    virtual_hosts: [...named, virtualHost("any", "*", byLength(anyHost))],
  };
}

/** Which headers backends and clients get. */
export function headerRules(config: Config, options: EnvoyRenderOptions): YamlSection {
  const { app_header, user_header, forward_identity } = config.identity;
  return {
    "# The Host of the client's request. Only trusted clients may send this header themselves.": NOTE,
    request_headers_to_add: [
      { header: { key: "X-Forwarded-Host", value: "%REQ(:AUTHORITY)%" }, append_action: "ADD_IF_ABSENT" },
      ...defaultApp(config, options),
    ],
    "# Backends get no API keys, and no other spellings of identity headers, which some servers do not distinguish.":
      NOTE,
    request_headers_to_remove: [...(forward_identity ? [] : [app_header, user_header]), ...hiddenHeaders(config)],
    "# Only the gateway sets these headers: remove them from backend responses.": NOTE,
    response_headers_to_remove: options.mode === "rls" ? reservedHeaders(headerOptions(config)) : [DRY_RUN_HEADER],
  };
}

/** Routes that refuse what servers read differently; they come before all others. */
export function refusals(config: Config, options: EnvoyRenderOptions): YamlSection[] {
  return [twoHosts(options), trace(options), invalidPath(config, options), ...tooLarge(config, options)];
}

/** What routes of someone else need where the configuration has options for a route. */
export function requiredOfRoute(config: Config, route: Route, options: EnvoyRenderOptions): YamlSection {
  const { match, metadata, response_headers_to_remove } = routeTo(config, route, options);
  const forSockets = route.connections === undefined ? undefined : times(config, route.connections);
  return { match, metadata, response_headers_to_remove, route: forSockets };
}

/** The module adds it itself. */
function defaultApp({ identity }: Config, { mode }: EnvoyRenderOptions): YamlData[] {
  if (mode !== "rls" || !identity.forward_identity) return [];
  return [{ header: { key: identity.app_header, value: DEFAULT_APP }, append_action: "ADD_IF_ABSENT" }];
}

function byLength(routes: Route[]): Route[] {
  return [...routes].sort((a, b) => b.path.length - a.path.length);
}

function routeTo(config: Config, route: Route, { mode }: EnvoyRenderOptions): YamlSection {
  const { upstream, connections, path, cost_header: costHeader } = route;
  const { pass_host: passHost } = upstreamOf(config, route);
  return {
    // A path without a trailing slash matches itself and everything below it, but no longer segment.
    match: path.endsWith("/") ? { prefix: path } : { path_separated_prefix: path },
    metadata: mode === "rls" ? undefined : { filter_metadata: { [METADATA]: { route: routeName(route) } } },
    // The module reads it first and removes it.
    response_headers_to_remove: mode === "rls" && costHeader !== undefined ? [costHeader] : undefined,
    route: {
      cluster: upstreamName(upstream),
      auto_host_rewrite: passHost ? undefined : true,
      ...times(config, connections),
      ...retries(config, route),
    },
  };
}

/** Limits the time without traffic; Envoy's `timeout` would limit the whole response. */
function times({ timeouts }: Config, connections: Route["connections"]): YamlSection {
  if (connections === undefined) return { timeout: "0s", idle_timeout: seconds(timeouts.response_ms) };
  return {
    "# No limit on the lifetime of a WebSocket; connections.idle_ms closes idle ones.": NOTE,
    timeout: "0s",
    idle_timeout: seconds(connections.idle_ms),
  };
}

/** Retries only if the first target cannot have processed the request; never with a slot, which belongs to one pod. */
function retries(config: Config, route: Route): YamlSection {
  const { connections } = route;
  const { targets, dns } = upstreamOf(config, route);
  if (connections !== undefined || (targets.length < 2 && dns === undefined)) return {};
  return {
    retry_policy: {
      retry_on: "connect-failure,refused-stream,reset-before-request",
      num_retries: 1,
      retry_host_predicate: [
        extension(
          "envoy.retry_host_predicates.previous_hosts",
          "extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
        ),
      ],
      host_selection_retry_max_attempts: 5,
    },
  };
}

/** Envoy joins two Host headers to `a,b`; such a request is ambiguous. */
function twoHosts(options: EnvoyRenderOptions): YamlSection {
  const match = { prefix: "/", headers: [{ name: ":authority", string_match: { contains: "," } }] };
  return directResponse(match, gatewayRefusal("malformed_request"), options);
}

/** TRACE would send headers back, including those that proxies have added. */
function trace(options: EnvoyRenderOptions): YamlSection {
  const match = { prefix: "/", headers: [{ name: ":method", string_match: { exact: "TRACE" } }] };
  return directResponse(match, gatewayRefusal("unsupported_method"), options);
}

function invalidPath(config: Config, options: EnvoyRenderOptions): YamlSection {
  const regex = rejectedPaths(
    envoyPathRules(config),
    config.routes.map(({ path }) => path),
  );
  const response = directResponse({ safe_regex: { regex } }, gatewayRefusal("invalid_path"), options);
  return { "# Paths that servers read differently. Dot segments and // are resolved before.": NOTE, ...response };
}

/** By Content-Length. Matches "not within" instead of "above", because Envoy's ranges cannot express the latter. */
function tooLarge({ request_limits: limits }: Config, options: EnvoyRenderOptions): YamlSection[] {
  const most = limits.body_bytes;
  if (most === Number.MAX_SAFE_INTEGER) return [];
  const name = "content-length";
  const headers = [
    { name, present_match: true },
    { name, range_match: { start: 0, end: most + 1 }, invert_match: true },
  ];
  const response = directResponse({ prefix: "/", headers }, gatewayRefusal("body_too_large"), options);
  return [{ "# request_limits.body_bytes, for bodies with a Content-Length.": NOTE, ...response }];
}

function rest(routes: Route[], options: EnvoyRenderOptions): YamlData[] {
  if (routes.some(({ path }) => path === "/")) return [];
  return [{ name: NO_ROUTE, ...directResponse({ prefix: "/" }, gatewayRefusal(NO_ROUTE), options) }];
}

/** The namespace of the name of a route, where the module looks for it. */
const METADATA = "tollgate";

function disabled(mode: EnvoyRenderOptions["mode"]): YamlData | undefined {
  if (mode === "rls") return undefined;
  return { [MODULE]: { "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", disabled: true } };
}

/** A response of Envoy itself; no app is charged for it. */
function directResponse(match: YamlData, { status, body }: Refusal, { mode }: EnvoyRenderOptions): YamlSection {
  return {
    match,
    direct_response: { status, body: { inline_string: body } },
    response_headers_to_add: [{ header: { key: "content-type", value: "application/json" } }],
    typed_per_filter_config: disabled(mode),
  };
}
