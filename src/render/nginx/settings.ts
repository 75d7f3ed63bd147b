/** What the nginx plane must know of a configuration: what all planes know, and where the services are. */
import type { Config } from "../../config/schema.js";
import type { NginxSettings } from "../../planes/nginx/settings.js";
import { type LuaData, luaTable } from "../lua-table.js";
import { planeSettings, serviceAddresses } from "../plane-settings.js";
import type { RenderOptions } from "./nginx.js";
import { socketSettings } from "./sockets.js";

export function nginxSettings(config: Config, options: RenderOptions): NginxSettings {
  const { node, ...rest } = planeSettings(config, options.node ?? "", "nginx");
  const services = serviceAddresses(options.services, "--service", config.control.listen);
  return { node, services, ...rest, connections: socketSettings(config) };
}

export function settingsLua(settings: NginxSettings): string {
  return `-- Written by \`tollgate render nginx\`; it holds the token of the data planes.
return ${luaTable(settings as unknown as LuaData)}
`;
}
