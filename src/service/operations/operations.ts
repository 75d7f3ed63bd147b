/** All admin and health endpoints. Each replies within seconds or fails with a StoreError. */
import { appEndpoints } from "./apps.js";
import { clusterEndpoints } from "./cluster.js";
import { configEndpoints } from "./configuration.js";
import type { OperationsContext } from "./context.js";
import { degradationEndpoints } from "./degradation.js";
import { emergencyEndpoints } from "./emergency.js";
import type { Endpoint } from "./endpoint.js";
import { healthEndpoints } from "./health.js";
import { limitEndpoints } from "./limits.js";
import { statusEndpoints } from "./status.js";
import { tokenEndpoints } from "./tokens.js";
import { whatIfEndpoints } from "./what-if.js";

export function operationEndpoints(context: OperationsContext): Endpoint[] {
  return [
    healthEndpoints,
    statusEndpoints,
    degradationEndpoints,
    emergencyEndpoints,
    clusterEndpoints,
    tokenEndpoints,
    limitEndpoints,
    configEndpoints,
    whatIfEndpoints,
    appEndpoints,
  ].flatMap((endpoints) => endpoints(context));
}
