/** The script that the module runs: its options as a Lua table, followed by the bundle. */
import { envoyOptions } from "../../config/options/planes.js";
import type { Config } from "../../config/schema.js";
import type { RenderedFile } from "../common.js";
import { type LuaData, luaTable } from "../lua-table.js";
import { CONTROL_CLUSTER, DEFAULT_NODE, type EnvoyRenderOptions, SCRIPT } from "./options.js";

/** None in rls mode. */
export function scriptFiles(config: Config, options: EnvoyRenderOptions): RenderedFile[] {
  if (options.mode === "rls") return [];
  return [{ name: SCRIPT, text: envoyScript(config, options), secret: true }];
}

function envoyScript(config: Config, { node = DEFAULT_NODE, bundle }: EnvoyRenderOptions): string {
  const options = envoyOptions(config, { node, cluster: CONTROL_CLUSTER });
  return `-- Written by \`tollgate render envoy\`. Contains digests of the API keys.
local tollgateOptions = ${luaTable(options as unknown as LuaData)}

${bundle}`;
}
