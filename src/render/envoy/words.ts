/** The words of Envoy's configuration that are used again and again: durations, addresses, typed extensions. */
import { isIP } from "node:net";
import type { ServiceAddress } from "../../config/options/plane-options.js";
import type { YamlData, YamlSection } from "../commented-yaml.js";

const TYPES = "type.googleapis.com/envoy";

export function seconds(ms: number): string {
  return `${ms / 1000}s`;
}

export function socketAddress({ host, port }: ServiceAddress): YamlData {
  return { socket_address: { address: host, port_value: port } };
}

/** An extension by its name and the type of its configuration, without the common beginning. */
export function extension(name: string, type: string, config: YamlSection = {}): YamlSection {
  return { name, typed_config: { "@type": `${TYPES}.${type}`, ...config } };
}

/** With a `usualPort` each is also called by its address, in place of the host that the client asked for. */
export function endpoints(cluster: string, addresses: readonly ServiceAddress[], usualPort?: number): YamlData {
  const named = ({ host, port }: ServiceAddress) => {
    if (usualPort === undefined) return undefined;
    const written = host.includes(":") ? `[${host}]` : host;
    return port === usualPort ? written : `${written}:${port}`;
  };
  return {
    cluster_name: cluster,
    endpoints: [
      {
        lb_endpoints: addresses.map((address) => ({
          endpoint: { hostname: named(address), address: socketAddress(address) },
        })),
      },
    ],
  };
}

/** Names are looked up again and again, addresses are not. */
export function discovery(addresses: readonly ServiceAddress[]): "STATIC" | "STRICT_DNS" {
  return addresses.every(({ host }) => isIP(host) !== 0) ? "STATIC" : "STRICT_DNS";
}

export type HttpVersion = "http1" | "http2";

export function upstreamProtocol(version: HttpVersion, common: YamlSection): YamlData {
  const explicit: YamlData =
    version === "http1"
      ? { http_protocol_options: {} }
      : {
          http2_protocol_options: {
            "# A service that is gone without a word is noticed by this, not after minutes.": true,
            connection_keepalive: { interval: "10s", timeout: "3s" },
          },
        };
  return {
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
      "@type": `${TYPES}.extensions.upstreams.http.v3.HttpProtocolOptions`,
      common_http_protocol_options: common,
      explicit_http_config: explicit,
    },
  };
}
