/** Parts of an Envoy configuration that are used in several places: durations, addresses, typed extensions, calls of the service. */
import type { ServiceAddress } from "../../config/options/plane-options.js";
import type { YamlData, YamlSection } from "../commented-yaml.js";
import { SERVICE_CLUSTER } from "./options.js";

/** The common prefix of the names of types. */
export const TYPES = "type.googleapis.com/envoy";

export function seconds(ms: number): string {
  return `${ms / 1000}s`;
}

export function socketAddress({ host, port }: ServiceAddress): YamlData {
  return { socket_address: { address: host, port_value: port } };
}

/** An extension with its typed configuration; `type` omits the prefix. */
export function extension(name: string, type: string, config: YamlSection = {}): YamlSection {
  return { name, typed_config: { "@type": `${TYPES}.${type}`, ...config } };
}

/** Options of gRPC calls to the service. Its cluster adds the token. */
export function grpcService(): YamlData {
  return { envoy_grpc: { cluster_name: SERVICE_CLUSTER, skip_envoy_headers: true } };
}

/** The source of a file that Envoy reloads. Watches the folder, because some deployment tools replace a symbolic link in it. */
export function fromFile(folder: string, name: string): YamlSection {
  return {
    resource_api_version: "V3",
    path_config_source: { path: `${folder}/${name}`, watched_directory: { path: folder } },
  };
}
