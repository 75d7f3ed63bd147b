/** The two files that an nginx includes: one for `http`, one for every location that is to be limited. */
import { isIP } from "node:net";
import type { NginxOptions } from "../../config/options/plane-options.js";
import type { Config } from "../../config/schema.js";
import { parseAddress } from "../../config/values.js";
import { RESPONSE_HEADERS } from "../../core/refusals.js";
import { RenderError } from "../render-error.js";
import { BUNDLE, type RenderOptions, SETTINGS } from "./nginx.js";
import { socketHttp } from "./sockets.js";

/** Balance, record, refusal and counters of one app, in shared memory, with room to spare. */
const BYTES_PER_APP = 4_096;
const LEAST_BYTES = 1_048_576;

/** Whole megabytes; a change of it is a new dictionary, so it does not follow every new app. */
export function dictMegabytes(apps: number): number {
  const bytes = LEAST_BYTES + apps * BYTES_PER_APP;
  let megabytes = 2;
  while (megabytes * 1_048_576 < bytes) megabytes *= 2;
  return megabytes;
}

/** In quotes, for a value that comes from outside: nginx reads `$` as a variable even there, so it is refused. */
export function quoted(text: string, option: string): string {
  if (/[$"\\\p{Cc}]/u.test(text)) throw new RenderError(`${option}: nginx cannot be given ${JSON.stringify(text)}`);
  return `"${text}"`;
}

export function httpInclude(config: Config, settings: NginxOptions, options: RenderOptions): string {
  const file = (name: string) => quoted(`${options.path}/${name}`, "--path");
  const trusted = config.identity.trusted_hops.map((network) => `    ${network} 1;\n`).join("");
  return `# Tollgate, for the http section: include this once.

# What all workers share: balances, counters, what the service last said. Sized for ${settings.apps.length} apps.
lua_shared_dict tollgate ${dictMegabytes(settings.apps.length)}m;
${resolverLine(settings, options)}
# Whose identity headers are believed (identity.trusted_hops). Behind the realip module this is about the
# address that it found; to judge the direct peer instead, write: geo $realip_remote_addr $tollgate_trusted {
geo $tollgate_trusted {
    default 0;
${trusted}}

init_by_lua_block {
    tollgate = dofile(${file(BUNDLE)})
    tollgate.init(dofile(${file(SETTINGS)}))
}
init_worker_by_lua_block { tollgate.initWorker() }

# Settles every exchange that was let in, when it has ended.
log_by_lua_block { tollgate.log() }
${socketHttp(config, settings.connections, options)}`;
}

function resolverLine({ services }: NginxOptions, { resolver }: RenderOptions): string {
  const names = services.filter(({ host }) => isIP(host) === 0);
  if (names.length === 0) return "";
  if (resolver === undefined) {
    throw new RenderError(
      `the service ${names[0]?.host} is a name: nginx needs --resolver with the address of a name server`,
    );
  }
  return `\n# Looks up the names of the services.\nresolver ${resolverAddress(resolver)};\n`;
}

export function resolverAddress(resolver: string): string {
  const [, bracketed, plain, port] = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+))(:[0-9]{1,5})?$/.exec(resolver) ?? [];
  const address = bracketed ?? plain ?? resolver;
  const version = isIP(address);
  if (version === 0) throw new RenderError(`--resolver ${resolver}: must be an address, with or without a port`);
  return version === 6 ? `[${address}]${port ?? ""}` : `${address}${port ?? ""}`;
}

export function locationInclude(): string {
  return `# Tollgate, for every location (or server) that is to be limited.
access_by_lua_block { tollgate.access() }
${ownHeaders}`;
}

export const ownHeaders = `
# These headers are the gateway's own: a backend's are not passed on.
${RESPONSE_HEADERS.map((name) => `proxy_hide_header ${name};\n`).join("")}`;

/** A server of its own, so that neither clients nor routes of the configuration come across it. */
export function statusInclude({ status }: RenderOptions): string {
  const { host, port } = parseAddress(status) ?? { host: "", port: 0 };
  if (port === 0) throw new RenderError(`--status ${status}: must be host:port`);
  return `# Tollgate, for the http section: metrics and health of this nginx. Keep it to machines that may see them.
server {
    listen ${host.includes(":") ? `[${host}]` : host}:${port};
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
