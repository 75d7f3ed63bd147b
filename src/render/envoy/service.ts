/** How Envoy reaches the service over gRPC: its cluster, and the token of the data planes. */
import type { Config } from "../../config/schema.js";
import type { YamlData } from "../commented-yaml.js";
import { requirePlaneToken } from "../services.js";
import { SERVICE_CLUSTER } from "./clusters.js";

export function service(config: Config): YamlData {
  requirePlaneToken(config, "Envoy");
  return {
    envoy_grpc: { cluster_name: SERVICE_CLUSTER },
    initial_metadata: [{ key: "authorization", value: `Bearer ${config.control.plane_token}` }],
  };
}
