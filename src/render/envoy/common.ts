/** Parts of an Envoy configuration that are used in several places: durations, addresses, typed extensions, protocols. */
import { isIP } from "node:net";
import type { ServiceAddress } from "../../config/options/plane-options.js";
import type { Config } from "../../config/schema.js";
import { NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { hostAndPort, requirePlaneToken } from "../common.js";
import { SERVICE_CLUSTER } from "./options.js";

const TYPES = "type.googleapis.com/envoy";

export function seconds(ms: number): string {
  return `${ms / 1000}s`;
}

export function socketAddress({ host, port }: ServiceAddress): YamlData {
  return { socket_address: { address: host, port_value: port } };
}

/** An extension with its typed configuration; `type` omits the common prefix. */
export function extension(name: string, type: string, config: YamlSection = {}): YamlSection {
  return { name, typed_config: { "@type": `${TYPES}.${type}`, ...config } };
}

/** With a `defaultPort`, requests carry the address of the endpoint as Host instead of the client's. */
export function endpoints(cluster: string, addresses: readonly ServiceAddress[], defaultPort?: number): YamlData {
  const named = (address: ServiceAddress) =>
    defaultPort === undefined ? undefined : hostAndPort(address).replace(new RegExp(`:${defaultPort}$`), "");
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

/** Host names are resolved repeatedly, addresses never. */
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
            "# Detects within seconds a service that disappeared without closing the connection.": NOTE,
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

/** Options of gRPC calls to the service, with the token of the data planes. */
export function grpcService(config: Config): YamlData {
  requirePlaneToken(config, "Envoy");
  return {
    envoy_grpc: { cluster_name: SERVICE_CLUSTER },
    initial_metadata: [{ key: "authorization", value: `Bearer ${config.control.plane_token}` }],
  };
}

/** Ejects endpoints that cannot be reached. Their responses are not judged. */
export function ejectUnreachable(times: { failures: number; baseMs: number; maxMs: number; intervalMs: number }) {
  return {
    split_external_local_origin_errors: true,
    consecutive_local_origin_failure: times.failures,
    base_ejection_time: seconds(times.baseMs),
    max_ejection_time: seconds(times.maxMs),
    interval: seconds(times.intervalMs),
    max_ejection_percent: 100,
    enforcing_consecutive_local_origin_failure: 100,
    enforcing_consecutive_5xx: 0,
    enforcing_consecutive_gateway_failure: 0,
    enforcing_success_rate: 0,
    enforcing_local_origin_success_rate: 0,
  };
}
