/** The files that an nginx configuration includes: for `http`, for limited locations, and for the status listener. */
import { isIP } from "node:net";
import { headerOptions } from "../../config/options/limiter.js";
import type { NginxOptions } from "../../config/options/plane-options.js";
import { routeName } from "../../config/options/slots.js";
import type { Config } from "../../config/schema.js";
import { OVERFLOW_BUCKETS } from "../../limit-rules/limit-rules.js";
import { addressOf, hostAndPort, RenderError, type Route } from "../common.js";
import { dictMegabytes, hiddenHeaders, quoted, resolverAddress } from "./directives.js";
import { BUNDLE, LOCATION_INCLUDE, OPTIONS, type RenderOptions } from "./options.js";
import { serviceTrust } from "./service-tls.js";
import { socketHttp } from "./sockets.js";

/** Shared memory per app: balance, record, refusal and counters, with reserve. */
const BYTES_PER_APP = 4_096;
/** Per value of a limit: balance, record, refusal, refunds, and its place in the list of values. */
const BYTES_PER_VALUE = 2_048;
const MIN_BYTES = 1_048_576;

export function httpInclude(config: Config, plane: NginxOptions, options: RenderOptions): string {
  const file = (name: string) => quoted(`${options.path}/${name}`, "--path");
  const trusted = config.identity.trusted_hops.map((network) => `    ${network} 1;\n`).join("");
  const apps = plane.apps.length;
  const limits = plane.limits.rules.length;
  const values = limits === 0 ? 0 : plane.maxValues;
  const shared = limits * OVERFLOW_BUCKETS;
  const bytes = MIN_BYTES + (apps + limits) * BYTES_PER_APP + (values + shared) * BYTES_PER_VALUE;
  const sizedFor = `${apps} apps${limits === 0 ? "" : ` and ${values} values of limits`}`;
  return `# Tollgate: include this once in the http section.

# Shared by all workers: balances, counters and the latest sync reply. Sized for ${sizedFor}.
lua_shared_dict tollgate ${dictMegabytes(2, bytes)}m;
${resolverLine(plane, options)}${serviceTrust(plane.serviceTls, options)}
# Clients whose identity headers are trusted (identity.trusted_hops). With the realip module this matches the client
# address that it determined; to match the direct peer instead, use: geo $realip_remote_addr $tollgate_trusted {
geo $tollgate_trusted {
    default 0;
${trusted}}

# Identifies a request that was admitted, also after an internal redirect. "1" in $tollgate_admitted, for logs and maps.
map "" $tollgate_exchange {
    default "";
}
map $tollgate_exchange $tollgate_admitted {
    "" 0;
    default 1;
}

${luaHooks(file(BUNDLE), file(OPTIONS), options)}${socketHttp(config, plane.connections, options)}`;
}

function luaHooks(bundle: string, settings: string, { ownLua }: RenderOptions): string {
  const hooks = `init_by_lua_block {
    tollgate = dofile(${bundle})
    tollgate.init(dofile(${settings}))
}
init_worker_by_lua_block { tollgate.initWorker() }

# Settles every admitted request when it ends.
log_by_lua_block { tollgate.log() }
`;
  if (ownLua !== true) return hooks;
  return `# Rendered with --own-lua. Your own Lua has to call Tollgate, in each limited location also tollgate.access():
${hooks.replace(/^(?=.)/gm, "#   ")}#   ${ACCESS}
`;
}

function resolverLine({ services }: NginxOptions, { resolver }: RenderOptions): string {
  const names = services.filter(({ host }) => isIP(host) === 0);
  if (names.length === 0) return "";
  if (resolver === undefined) {
    throw new RenderError(
      `the service ${names[0]?.host} is a host name: nginx needs --resolver with the address of a name server`,
    );
  }
  return `\n# Resolves the host names of the services.\nresolver ${resolverAddress(resolver)};\n`;
}

export function locationInclude(config: Config, { ownLua }: RenderOptions): string {
  const hook = ownLua === true ? "# Its access_by_lua_block has to call tollgate.access()." : ACCESS;
  return `# Tollgate: include this in every location (or server) that is to be limited.
${hook}
${hiddenHeaders(headerOptions(config))}`;
}

const ACCESS = "access_by_lua_block { tollgate.access() }";

/** For a route with options of its own. */
export function routeLocation(config: Config, route: Route, { ownLua }: RenderOptions): string {
  const name = quoted(routeName(route), "routes[].path");
  const hooks = [`access_by_lua_block { tollgate.access(${name}) }`];
  if (route.cost_header !== undefined) hooks.push("header_filter_by_lua_block { tollgate.answered() }");
  const lines = ownLua === true ? ["# Your own Lua has to call:", ...hooks.map((hook) => `#   ${hook}`)] : hooks;
  return `# Tollgate: include this in the location of the route ${name}, instead of ${LOCATION_INCLUDE}.
${lines.join("\n")}
${hiddenHeaders(headerOptions(config))}`;
}

/** A separate server, unreachable through the listener and the routes of clients. */
export function statusInclude({ status }: RenderOptions): string {
  return `# Tollgate: include this in the http section. Metrics and health of this nginx; restrict access to it.
server {
    listen ${hostAndPort(addressOf(status, "--status"))};
    server_name _;
    access_log off;

    location = /metrics { content_by_lua_block { tollgate.metrics() } }
    location = /health/live { content_by_lua_block { tollgate.live() } }
    location = /health/ready { content_by_lua_block { tollgate.ready() } }
    location = /health/deep { content_by_lua_block { tollgate.deep() } }
    location / { return 404; }
}
`;
}
