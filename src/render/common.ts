/** What the renderers for nginx and Envoy share: their result, and how they read services, upstreams and routes. */
import { isIP } from "node:net";
import type { ServiceAddress } from "../config/options/plane-options.js";
import type { Config } from "../config/schema.js";
import { parseAddress } from "../config/values.js";
import { planeOfNode } from "../shared/access/planes.js";

/** Options that the renderers have in common. */
export interface CommonRenderOptions {
  /** Absolute path of the folder from which the proxy will read the files. */
  path: string;
  /** `host:port` of the services' control listeners. */
  services: string[];
  /** The name of the node. */
  node?: string | undefined;
  workers?: number | undefined;
  /** Of the listener for clients. */
  tls?: CertificateFiles | undefined;
  /** How the services' listeners are verified, if they have TLS. */
  serviceTls?: ServiceTls | undefined;
  /** The text of the proxy's bundle in dist/lua; unused if the proxy runs no script. */
  bundle: string;
}

export interface CertificateFiles {
  certificate: string;
  key: string;
}

export interface ServiceTls {
  /** CA certificates. Default: those of the system. */
  ca?: string | undefined;
  /** The name in the certificate of the services. Default: the host by which they are called. */
  name?: string | undefined;
  /** The certificate of the plane. */
  client?: CertificateFiles | undefined;
}

export interface RenderedFile {
  name: string;
  text: string;
  /** Contains a secret: readable by the owner only. */
  secret: boolean;
}

export interface Rendered {
  files: RenderedFile[];
  /** Differences from the behaviour of the Node gateway, one sentence each. */
  warnings: string[];
}

/** The configuration is valid but cannot be rendered for this plane. The message names the option and the reason. */
export class RenderError extends Error {}

export type Upstream = Config["upstreams"][string];
export type Route = Config["routes"][number];
export type UpgradingRoute = Route & { connections: NonNullable<Route["connections"]> };

/** Rather than charging another app. */
export function refuseIdentity({ identity }: Config, plane: string): void {
  const { jwt, hosts, path_segment } = identity;
  const used = { jwt: jwt !== undefined, hosts: Object.keys(hosts).length > 0, path_segment: path_segment > 0 };
  for (const [option, isUsed] of Object.entries(used)) {
    if (isUsed) throw new RenderError(`identity.${option}: ${plane} cannot identify apps by it; see SECURITY.md`);
  }
}

/**
 * The token that the proxy sends to the services: of the plane that `node` belongs to, otherwise the common one. Empty for a
 * plane that has only a certificate. Throws RenderError if the services would reject the proxy.
 */
export function planeToken({ control }: Config, { node = "", serviceTls }: CommonRenderOptions, proxy: string): string {
  const { planes, plane_token: common } = control;
  const names = Object.keys(planes);
  const plane = planeOfNode(node, names);
  const own = plane === undefined ? undefined : planes[plane];
  if (own === undefined) {
    if (common !== "") return common;
    if (names.length > 0)
      throw new RenderError("--node must name one of control.planes, because there is no plane_token");
    throw new RenderError(`control.plane_token is empty: the service would reject ${proxy}`);
  }
  if (own[0] === undefined && serviceTls?.client === undefined) {
    throw new RenderError(`control.planes.${plane} has no token: use --client-certificate and --client-key`);
  }
  return own[0] ?? "";
}

/** The names that the certificates of servers must have. Throws RenderError if a proxy could not tell them apart. */
export function expectedNames(hosts: readonly string[], name: string | undefined, option: string) {
  const all = name === undefined ? [...new Set(hosts)] : [name];
  const dns = all.filter((host) => isIP(host) === 0);
  if (dns.length > 1) {
    throw new RenderError(
      `${option}: with TLS, all need the same host name, IP addresses, or a common certificate name`,
    );
  }
  return { dns, addresses: all.filter((host) => isIP(host) !== 0) };
}

/** The addresses given by the command-line option `flag` (host:port each), or else the listener `own`, configured as `option`. */
export function serviceAddresses(given: readonly string[], flag: string, own: string, option: string) {
  if (given.length > 0) return given.map((text) => addressOf(text, flag));
  const { host, port } = addressOf(own, option);
  const isWildcard = host === "0.0.0.0" || host === "::";
  return [{ host: isWildcard ? "127.0.0.1" : host, port }];
}

/** Where the proxy listens for clients. */
export function listenAddress(config: Config, given: string | undefined): ServiceAddress {
  return given === undefined ? addressOf(config.listen, "listen") : addressOf(given, "--listen");
}

export function addressOf(text: string, option: string): ServiceAddress {
  const at = parseAddress(text);
  if (at === undefined || at.port === 0)
    throw new RenderError(`${option} ${text}: must be host:port, with a port above 0`);
  return at;
}

/** `host:port` with brackets around an IPv6 address. */
export function hostAndPort({ host, port }: ServiceAddress): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** Ids may contain a colon, which proxies would read as a port. The mapping is injective. */
export function upstreamName(id: string): string {
  return `tollgate_${id.replace(/[^A-Za-z0-9-]/g, (odd) => `_${odd.charCodeAt(0)}_`)}`;
}

/** Throws RenderError if the targets of an upstream differ in their scheme. */
export function schemeOf(id: string, { targets }: Upstream, proxy: string): "http" | "https" {
  const secure = targets.filter((target) => target.startsWith("https://")).length;
  if (secure > 0 && secure < targets.length) {
    throw new RenderError(
      `upstreams.${id}.targets: ${proxy} needs the same scheme, http:// or https://, for all of them`,
    );
  }
  return secure > 0 ? "https" : "http";
}

export function usedUpstreams(config: Config): [string, Upstream][] {
  const used = new Set(config.routes.map(({ upstream }) => upstream));
  return Object.entries(config.upstreams).filter(([id]) => used.has(id));
}

/** Routes for any host, and those of each host. A route with a host takes precedence over a longer one without. */
export function routesByHost({ routes }: Config): { anyHost: Route[]; hosts: Map<string, Route[]> } {
  const hosts = new Map<string, Route[]>();
  for (const route of routes) {
    const host = route.host?.toLowerCase();
    if (host !== undefined) hosts.set(host, [...(hosts.get(host) ?? []), route]);
  }
  return { anyHost: routes.filter(({ host }) => host === undefined), hosts };
}

export function upgradingRoutes({ routes }: Config): UpgradingRoute[] {
  return routes.filter((route): route is UpgradingRoute => route.connections !== undefined);
}

/** Proxies set TCP keep-alive per listener, so the shortest `ping_ms` of all routes applies. Undefined: none. */
export function keepAliveSeconds(config: Config): number | undefined {
  const pings = upgradingRoutes(config).flatMap(({ connections: { ping_ms } }) => (ping_ms > 0 ? [ping_ms] : []));
  return pings.length === 0 ? undefined : Math.ceil(Math.min(...pings) / 1000);
}
