/** nginx directives that several of the rendered files share. */
import { isIP } from "node:net";
import { type HeaderOptions, reservedHeaders } from "../../core/response-headers.js";
import { RenderError } from "../common.js";

/** Quotes a value from the configuration. nginx expands `$` even inside quotes, so it is rejected. */
export function quoted(text: string, option: string): string {
  if (/[$"\\\p{Cc}]/u.test(text)) throw new RenderError(`${option}: nginx cannot represent ${JSON.stringify(text)}`);
  return `"${text}"`;
}

export function resolverAddress(resolver: string): string {
  const [, bracketed, plain, port] = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+))(:[0-9]{1,5})?$/.exec(resolver) ?? [];
  const address = bracketed ?? plain ?? resolver;
  const version = isIP(address);
  if (version === 0) throw new RenderError(`--resolver ${resolver}: must be an IP address, optionally with a port`);
  return version === 6 ? `[${address}]${port ?? ""}` : `${address}${port ?? ""}`;
}

/** Size of a shared dictionary. Powers of two, because nginx discards the contents when the size changes. */
export function dictMegabytes(least: number, bytes: number): number {
  let megabytes = least;
  while (megabytes * 1_048_576 < bytes) megabytes *= 2;
  return megabytes;
}

export function hiddenHeaders(headers: HeaderOptions): string {
  const lines = reservedHeaders(headers).map((name) => `proxy_hide_header ${name};\n`);
  return `
# Only the gateway sets these headers: remove them from backend responses.
${lines.join("")}`;
}

/** Headers that describe the client and its request to the backend. */
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

/** The variables that `forwardedHeaders` uses. */
export function forwardedMaps(indent: string): string {
  const text = `# Forwarded headers of trusted clients are passed on; those of other clients are replaced.
map $tollgate_trusted $tollgate_forwarded_for {
    1 $proxy_add_x_forwarded_for;
    default $remote_addr;
}
map "$tollgate_trusted:$http_x_forwarded_proto" $tollgate_forwarded_proto {
    ~^1:(?<given>.+)$ $given;
    default $scheme;
}
map "$tollgate_trusted:$http_x_forwarded_host" $tollgate_forwarded_host {
    ~^1:(?<named>.+)$ $named;
    default $http_host;
}
# HTTP/1.0 clients may omit Host, but backends require it.
map $http_host $tollgate_host {
    "" $proxy_host;
    default $http_host;
}
`;
  return text.replace(/^(?=.)/gm, indent);
}
