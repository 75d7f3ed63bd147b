/** All operations behind the admin and health endpoints. Each replies within seconds or fails with a StoreError. */
import { appOperations } from "./apps.js";
import { configOperations } from "./configuration.js";
import { createContext, type OperationsOptions } from "./context.js";
import { degradationOperations } from "./degradation.js";
import { emergencyOperations } from "./emergency.js";
import { healthOperations } from "./health.js";
import { statusOperations } from "./status.js";
import { tokenOperations } from "./tokens.js";

export type Operations = ReturnType<typeof createOperations>;

export function createOperations(options: OperationsOptions) {
  const context = createContext(options);
  return {
    ...healthOperations(context),
    ...statusOperations(context),
    ...degradationOperations(context),
    ...emergencyOperations(context),
    ...tokenOperations(context),
    ...configOperations(context),
    ...appOperations(context),
  };
}
