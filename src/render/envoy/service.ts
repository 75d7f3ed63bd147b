/** How Envoy reaches the service over gRPC: its cluster, and the token of the data planes. */
import type { Config } from "../../config/schema.js";
import type { YamlData } from "../commented-yaml.js";
import { RenderError } from "../render-error.js";
import { SERVICE_CLUSTER } from "./clusters.js";

export function service(config: Config): YamlData {
  const token = config.control.plane_token;
  if (token === "") throw new RenderError("control.plane_token is empty: Envoy would not be let in by the service");
  return {
    envoy_grpc: { cluster_name: SERVICE_CLUSTER },
    initial_metadata: [{ key: "authorization", value: `Bearer ${token}` }],
  };
}
