/** The script that Envoy runs: its options as a Lua table, followed by the bundle. */
import { envoyModuleOptions, envoyOptions } from "../../config/options/planes.js";
import type { Config } from "../../config/schema.js";
import type { RenderedFile } from "../common.js";
import { type LuaData, luaTable } from "../lua-table.js";
import { CONTROL_CLUSTER, DEFAULT_NODE, type EnvoyRenderOptions, SCRIPT, SERVICE_CLUSTER } from "./options.js";

/** None in rls mode. */
export function scriptFiles(config: Config, options: EnvoyRenderOptions): RenderedFile[] {
  if (options.mode === "rls") return [];
  return [{ name: SCRIPT, text: envoyScript(config, options), secret: true }];
}

function envoyScript(config: Config, { mode, node, workers, bundle }: EnvoyRenderOptions): string {
  const name = node ?? DEFAULT_NODE;
  const options =
    mode === "module"
      ? envoyModuleOptions(config, { node: name, cluster: CONTROL_CLUSTER })
      : envoyOptions(config, {
          node: name,
          workers,
          clusters: { control: CONTROL_CLUSTER, envoy: SERVICE_CLUSTER },
          // Envoy writes it for every request: the listener has `use_remote_address` and no internal addresses.
          addressHeader: "x-envoy-external-address",
          settleByAccessLog: true,
        });
  return `-- Written by \`tollgate render envoy\`. Contains digests of the API keys.
local tollgateOptions = ${luaTable(options as unknown as LuaData)}

${bundle}`;
}
