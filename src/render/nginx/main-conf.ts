/** Renders a complete nginx.conf: listener, upstreams, routes, timeouts and limits. */
import type { NginxSocketOptions } from "../../config/options/plane-options.js";
import type { Config } from "../../config/schema.js";
import { hostAndPort, listenAddress, RenderError } from "../common.js";
import { forwardedHeaders, forwardedMaps, quoted } from "./directives.js";
import { workerFiles } from "./open-files.js";
import { HTTP_INCLUDE, type RenderOptions, STATUS_INCLUDE } from "./options.js";
import { serverBlocks } from "./servers.js";
import { upstreamBlocks } from "./upstreams.js";

export function mainConf(
  config: Config,
  sockets: NginxSocketOptions,
  options: RenderOptions,
  warnings: string[],
): string {
  if (config.routes.length === 0) throw new RenderError("routes is empty: use --include to render only the includes");
  const { request_limits: limits, timeouts } = config;
  const bodyLimit = limits.body_bytes === Number.MAX_SAFE_INTEGER ? "0" : String(limits.body_bytes);
  const address = listenAddress(config, options.listen);
  const listen = `${hostAndPort(address)}${options.tls === undefined ? "" : " ssl"}`;
  return `# Written by \`tollgate render nginx\`. Do not edit: change the configuration and render it again.
${modules(options)}
worker_processes ${options.workers ?? "auto"};
${runFiles(options)}
${shutdownAndEvents(config, sockets, options)}

http {
    include ${quoted(`${options.path}/${HTTP_INCLUDE}`, "--path")};
${temporary(options)}
    server_tokens off;

    # Limits on the time and size of client requests.
    client_header_timeout ${timeouts.headers_ms}ms;
    client_body_timeout ${timeouts.body_idle_ms}ms;
    send_timeout ${timeouts.body_idle_ms}ms;
    keepalive_timeout ${timeouts.keep_alive_ms}ms;
    keepalive_requests 100000;
    lingering_timeout ${Math.max(timeouts.linger_ms, 1)}ms;
    client_header_buffer_size ${Math.min(limits.header_bytes, 4096)};
    large_client_header_buffers 4 ${limits.header_bytes};
    client_max_body_size ${bodyLimit};

    # By default Lua returns memory to the system every 1000 requests and soon requests it again.
    lua_malloc_trim 0;

    # Connections to the backends.
    proxy_http_version 1.1;
    proxy_connect_timeout ${timeouts.connect_ms}ms;
    proxy_send_timeout ${timeouts.body_idle_ms}ms;
    proxy_read_timeout ${timeouts.response_ms}ms;

${forwardedMaps("    ")}${forwardedHeaders("$tollgate_host", "    ")}${upstreamBlocks(config, options, warnings)}${serverBlocks(config, listen, options, warnings)}
    # Metrics and health of this nginx.
    include ${quoted(`${options.path}/${STATUS_INCLUDE}`, "--path")};
}
`;
}

function shutdownAndEvents(config: Config, sockets: NginxSocketOptions, { openFiles }: RenderOptions): string {
  const seconds = Math.max(Math.ceil(config.timeouts.shutdown_ms / 1000), 1);
  const shutdown =
    sockets.routes.length === 0
      ? `# After a reload or a graceful shutdown, workers may finish their requests within this time.
worker_shutdown_timeout ${seconds}s;`
      : `# No worker_shutdown_timeout: it would close the WebSockets of old workers after a reload. On a graceful shutdown of
# nginx, Tollgate closes them after ${seconds} s.`;
  const { connections, files } = workerFiles(sockets, openFiles);
  return `${shutdown}

# More files than connections: at the limit of connections nginx closes idle ones, at that of files it accepts no new ones.
# If the system permits fewer files, use \`tollgate render nginx --open-files\`: nginx starts nevertheless, and /health/deep warns.
worker_rlimit_nofile ${files};

events {
    # A request uses two connections.
    worker_connections ${connections};
}`;
}

function modules({ flavour }: RenderOptions): string {
  if (flavour === "openresty") return "";
  return `
# Debian packages: nginx and libnginx-mod-http-lua.
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
user www-data;
`;
}

function runFiles({ flavour, runDir }: RenderOptions): string {
  if (runDir === undefined)
    return flavour === "debian" ? "pid /run/nginx.pid;\nerror_log /var/log/nginx/error.log warn;\n" : "";
  const at = (name: string) => quoted(`${runDir}/${name}`, "--run");
  return `pid ${at("nginx.pid")};\nerror_log ${at("error.log")} warn;\n`;
}

function temporary({ flavour, runDir }: RenderOptions): string {
  const log = runDir === undefined ? "/var/log/nginx/access.log" : `${runDir}/access.log`;
  const access = runDir === undefined && flavour === "openresty" ? "" : `    access_log ${quoted(log, "--run")};\n`;
  if (runDir === undefined) return access;
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return access + paths.map((name) => `    ${name}_temp_path ${quoted(`${runDir}/${name}`, "--run")};\n`).join("");
}
