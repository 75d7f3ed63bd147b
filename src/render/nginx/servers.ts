/** Renders routes as servers and locations: host first, then the longest prefix. */
import { hasOwnOptions } from "../../config/options/planes.js";
import { upstreamOf } from "../../config/options/slots.js";
import type { Config } from "../../config/schema.js";
import { canonicalPath } from "../../core/path.js";
import { type GatewayError, gatewayRefusal } from "../../core/refusals.js";
import { keepAliveSeconds, RenderError, type Route, routesByHost, schemeOf } from "../common.js";
import { forwardedHeaders, quoted } from "./directives.js";
import { LOCATION_INCLUDE, type RenderOptions, routeInclude, socketInclude } from "./options.js";
import { upstreamTls } from "./service-tls.js";
import { proxyTarget } from "./upstreams.js";

export function serverBlocks(config: Config, listen: string, options: RenderOptions, warnings: string[]): string {
  const { anyHost, hosts } = routesByHost(config);
  const locationsOf = (route: Route, routes: Route[]) => {
    const others = routes.filter((other) => other !== route);
    return locations(route.path, locationBody(config, route, options, warnings), others);
  };
  const server = (name: string, isDefault: boolean, routes: Route[]) => `
    server {
        listen ${listen}${isDefault ? ` default_server${keepAlive(config)}` : ""};
        server_name ${name};
${tls(options)}${routes.map((route) => locationsOf(route, routes)).join("")}${rest(routes)}    }
`;
  const named = [...hosts].map(([host, own]) => {
    const others = anyHost.filter(({ path }) => !own.some((route) => covers(route.path, path)));
    return server(host, false, [...own, ...others]);
  });
  return [server("_", true, anyHost), ...named].join("");
}

function covers(prefix: string, path: string): boolean {
  return (
    path.startsWith(prefix) && (prefix.endsWith("/") || path.length === prefix.length || path[prefix.length] === "/")
  );
}

function tls({ tls: files }: RenderOptions): string {
  if (files === undefined) return "";
  return `        ssl_certificate ${quoted(files.certificate, "--tls-certificate")};
        ssl_certificate_key ${quoted(files.key, "--tls-key")};
        ssl_protocols TLSv1.2 TLSv1.3;
`;
}

/** A path without a trailing slash matches itself and everything below it, but no longer segment. */
function locations(path: string, body: string, others: Route[]): string {
  if (!path.endsWith("/")) {
    return `\n        location = ${location(path)} {\n${body}        }\n        location ${location(`${path}/`)} {\n${body}        }\n`;
  }
  const above = path.slice(0, -1);
  const taken = above === "" || others.some((other) => covers(other.path, above));
  // Without this, nginx redirects /api to /api/.
  const noRedirect = taken ? "" : `        location = ${location(above)} { ${NO_ROUTE} }\n`;
  return `\n        location ${location(path)} {\n${body}        }\n${noRedirect}`;
}

/** nginx compares the decoded path. */
function location(path: string): string {
  try {
    return quoted(decodeURIComponent(canonicalPath(path)), "routes[].path");
  } catch (error) {
    if (error instanceof RenderError) throw error;
    throw new RenderError(`routes[].path: the escapes in ${path} are not UTF-8`);
  }
}

function locationBody(config: Config, route: Route, options: RenderOptions, warnings: string[]): string {
  const { upstream: id, connections } = route;
  const upstream = upstreamOf(config, route);
  if (connections !== undefined) {
    if (upstream.dns !== undefined)
      warnings.push(`upstreams.${id}.dns: nginx cannot find pods by DNS; upgrades are answered with 503`);
    return `            include ${quoted(`${options.path}/${socketInclude(route)}`, "--path")};\n`;
  }
  const scheme = schemeOf(id, upstream, "nginx");
  // proxy_set_header in a location replaces all inherited ones.
  const headers = upstream.pass_host ? "" : forwardedHeaders("$proxy_host", "            ");
  const include = hasOwnOptions(route) ? routeInclude(route) : LOCATION_INCLUDE;
  return `            include ${quoted(`${options.path}/${include}`, "--path")};
            proxy_pass ${scheme}://${proxyTarget(id, upstream)};
${upstreamTls(id, upstream, "            ")}${headers}`;
}

function keepAlive(config: Config): string {
  const seconds = keepAliveSeconds(config);
  return seconds === undefined ? "" : ` so_keepalive=${seconds}s:${Math.ceil(seconds / 3)}s:3`;
}

function response(reason: GatewayError): string {
  const { status, body } = gatewayRefusal(reason);
  return `default_type application/json; return ${status} '${body.replace("\n", "\\n")}';`;
}

const NO_ROUTE = response("no_route");

function rest(routes: Route[]): string {
  return routes.some(({ path }) => path === "/") ? "" : `\n        location / { ${NO_ROUTE} }\n`;
}
