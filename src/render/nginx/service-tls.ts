/** TLS that nginx uses as a client: to the services and to upstreams. */
import { isIP } from "node:net";
import type { NginxServiceTls, ServiceAddress } from "../../config/options/plane-options.js";
import type { Config } from "../../config/schema.js";
import { expectedNames, RenderError, schemeOf, type Upstream } from "../common.js";
import { quoted } from "./directives.js";
import type { RenderOptions } from "./options.js";

const SYSTEM_ROOTS = "/etc/ssl/certs/ca-certificates.crt";

export function serviceTls(config: Config, services: ServiceAddress[], options: RenderOptions): NginxServiceTls {
  const { name = "", client } = options.serviceTls ?? {};
  const on = config.control.tls !== undefined;
  const address = services.find(({ host }) => isIP(host) !== 0);
  if (on && name === "" && address !== undefined) {
    throw new RenderError(
      `--service ${address.host}: nginx compares certificates with names only; use --service-name, or a host name`,
    );
  }
  return { on, name, certificate: client?.certificate ?? "", key: client?.key ?? "" };
}

/** Directives for the http section. */
export function serviceTrust({ on }: NginxServiceTls, options: RenderOptions): string {
  if (!on) return "";
  return `
# Verifies the certificates of the services.
lua_ssl_trusted_certificate ${quoted(options.serviceTls?.ca ?? SYSTEM_ROOTS, "--service-ca")};
lua_ssl_verify_depth 3;
lua_ssl_protocols TLSv1.2 TLSv1.3;
`;
}

/** Directives for a location that passes requests to an upstream: its certificate is verified. */
export function upstreamTls(id: string, upstream: Upstream, indent: string): string {
  if (schemeOf(id, upstream, "nginx") === "http") return "";
  const { tls, targets } = upstream;
  const hosts = targets.map((target) => new URL(target).hostname.replace(/^\[(.*)\]$/, "$1"));
  const { dns, addresses } = expectedNames(hosts, tls?.name, `upstreams.${id}.targets`);
  if (dns[0] === undefined || addresses.length > 0) {
    throw new RenderError(`upstreams.${id}.tls.name: is required; nginx compares certificates with names only`);
  }
  const file = (path: string, option: string) => quoted(path, `upstreams.${id}.tls.${option}`);
  const lines = [
    "proxy_ssl_verify on;",
    "proxy_ssl_verify_depth 3;",
    `proxy_ssl_trusted_certificate ${file(tls?.ca ?? SYSTEM_ROOTS, "ca")};`,
    "proxy_ssl_server_name on;",
    `proxy_ssl_name ${quoted(dns[0], `upstreams.${id}.targets`)};`,
    "proxy_ssl_protocols TLSv1.2 TLSv1.3;",
  ];
  if (tls?.cert !== undefined && tls.key !== undefined) {
    lines.push(
      `proxy_ssl_certificate ${file(tls.cert, "cert")};`,
      `proxy_ssl_certificate_key ${file(tls.key, "key")};`,
    );
  }
  return lines.map((line) => `${indent}${line}\n`).join("");
}
