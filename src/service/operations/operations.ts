/** All admin and health endpoints. Each replies within seconds or fails with a StoreError. */
import { appEndpoints } from "./apps.js";
import { configEndpoints } from "./configuration.js";
import { createContext, type OperationsOptions } from "./context.js";
import { degradationEndpoints } from "./degradation.js";
import { emergencyEndpoints } from "./emergency.js";
import type { Endpoint } from "./endpoint.js";
import { healthEndpoints } from "./health.js";
import { statusEndpoints } from "./status.js";
import { tokenEndpoints } from "./tokens.js";

export function operationEndpoints(options: OperationsOptions): Endpoint[] {
  const context = createContext(options);
  return [
    healthEndpoints,
    statusEndpoints,
    degradationEndpoints,
    emergencyEndpoints,
    tokenEndpoints,
    configEndpoints,
    appEndpoints,
  ].flatMap((endpoints) => endpoints(context));
}
