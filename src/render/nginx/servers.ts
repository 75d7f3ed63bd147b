/** The routes of a configuration as servers and locations of nginx: host first, then the longest prefix. */
import type { Config } from "../../config/schema.js";
import { gatewayRefusal } from "../../core/refusals.js";
import { quoted } from "./includes.js";
import { LOCATION_INCLUDE, type RenderOptions } from "./nginx.js";
import { socketInclude } from "./sockets.js";
import { schemeOf, upstreamName, upstreamVariable } from "./upstreams.js";

type Route = Config["routes"][number];

export function serverBlocks(config: Config, listen: string, options: RenderOptions, warnings: string[]): string {
  const anyHost = config.routes.filter(({ host }) => host === undefined);
  const hosts = [...new Set(config.routes.flatMap(({ host }) => (host === undefined ? [] : [host.toLowerCase()])))];
  const server = (name: string, isDefault: boolean, routes: Route[]) => `
    server {
        listen ${listen}${isDefault ? " default_server" : ""};
        server_name ${name};
${tls(options)}${routes.map((route) => locations(config, route, routes, options, warnings)).join("")}${rest(routes)}    }
`;
  const named = hosts.map((host) => {
    const own = config.routes.filter((route) => route.host?.toLowerCase() === host);
    // A route of the host wins over any other, however long that is.
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

/** Without a slash at its end a path covers whole segments: itself and what is below it. */
function locations(config: Config, route: Route, all: Route[], options: RenderOptions, warnings: string[]): string {
  const body = locationBody(config, route, options, warnings);
  const { path } = route;
  if (!path.endsWith("/")) {
    return `\n        location = ${location(path)} {\n${body}        }\n        location ${location(`${path}/`)} {\n${body}        }\n`;
  }
  const above = path.slice(0, -1);
  const taken = above === "" || all.some((other) => other !== route && covers(other.path, above));
  // nginx would redirect from /api to /api/ by itself.
  const noRedirect = taken ? "" : `        location = ${location(above)} { ${NO_ROUTE} }\n`;
  return `\n        location ${location(path)} {\n${body}        }\n${noRedirect}`;
}

function location(path: string): string {
  return quoted(path, "routes[].path");
}

function locationBody(config: Config, route: Route, options: RenderOptions, warnings: string[]): string {
  const { upstream: id, connections } = route;
  const upstream = config.upstreams[id]!;
  if (connections !== undefined) {
    if (upstream.dns !== undefined) warnings.push(`upstreams.${id}.dns: nginx finds no pods by it; upgrades get 503`);
    return `            include ${quoted(`${options.path}/${socketInclude(route)}`, "--path")};\n`;
  }
  const scheme = schemeOf(id, upstream);
  const name = upstream.dns === undefined ? upstreamName(id) : upstreamVariable(id);
  // Headers of a location replace all of those above it.
  const headers = upstream.pass_host ? "" : forwardedHeaders("$proxy_host", "            ");
  return `            include ${quoted(`${options.path}/${LOCATION_INCLUDE}`, "--path")};
            proxy_pass ${scheme}://${name};
${headers}`;
}

/** What a backend is told of the request's way here. */
export function forwardedHeaders(host: string, indent: string, connection = '""'): string {
  const headers = [
    `Host ${host}`,
    `Connection ${connection}`,
    "X-Forwarded-For $tollgate_forwarded_for",
    "X-Forwarded-Proto $tollgate_forwarded_proto",
    "X-Forwarded-Host $tollgate_forwarded_host",
  ];
  return headers.map((header) => `${indent}proxy_set_header ${header};\n`).join("");
}

const { status, body } = gatewayRefusal("no_route");
const NO_ROUTE = `default_type application/json; return ${status} '${body.replace("\n", "\\n")}';`;

function rest(routes: Route[]): string {
  return routes.some(({ path }) => path === "/") ? "" : `\n        location / { ${NO_ROUTE} }\n`;
}
