/** Renders the script that Envoy runs: its options as a Lua table, followed by the bundle. */
import { envoyOptions } from "../../config/options/planes.js";
import type { Config } from "../../config/schema.js";
import { type LuaData, luaTable } from "../lua-table.js";
import { requirePlaneToken } from "../services.js";
import { CONTROL_CLUSTER, DEFAULT_NODE, type EnvoyRenderOptions, SERVICE_CLUSTER } from "./options.js";

export function envoyScript(config: Config, { node, workers, bundle }: EnvoyRenderOptions): string {
  requirePlaneToken(config, "Envoy");
  const options = envoyOptions(config, {
    node: node ?? DEFAULT_NODE,
    workers,
    clusters: { control: CONTROL_CLUSTER, envoy: SERVICE_CLUSTER },
    // Envoy writes it for every request: the listener has `use_remote_address` and no internal addresses.
    addressHeader: "x-envoy-external-address",
    settleByAccessLog: true,
  });
  return `-- Written by \`tollgate render envoy\`. Contains the token of the data planes.
local tollgateOptions = ${luaTable(options as unknown as LuaData)}

${bundle}`;
}
