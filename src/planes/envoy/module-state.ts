/** The options of Envoy's module in this Lua state. */
import type { EnvoyOptions } from "../../config/options/plane-options.js";

/** Filled when the state starts. */
export const envoy = {} as { options: EnvoyOptions };
