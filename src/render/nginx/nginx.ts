/** A configuration as files for nginx: the Lua bundle with its settings, two includes, and on wish a whole nginx.conf. */
import { nginxOptions } from "../../config/options/planes.js";
import type { Config } from "../../config/schema.js";
import { type LuaData, luaTable } from "../lua-table.js";
import type { Rendered, RenderedFile } from "../rendered.js";
import { requirePlaneToken, serviceAddresses } from "../services.js";
import { mainConf } from "./conf.js";
import { httpInclude, locationInclude, statusInclude } from "./includes.js";
import { podUpstream, socketInclude, socketLocation, upgradingRoutes } from "./sockets.js";

export interface RenderOptions {
  /** Where the files will lie when nginx reads them: an absolute path. */
  path: string;
  /** `host:port` of the services' control listeners. */
  services: string[];
  /** Unless given: host name and process of the nginx. */
  node?: string;
  flavour: "debian" | "openresty";
  /** The two includes alone, for an nginx that has a configuration already. */
  includeOnly: boolean;
  /** Where pid, logs and temporary files go, for an nginx that is not the system's. */
  runDir?: string;
  /** Asked for names of services, and of upstreams with `dns`. */
  resolver?: string;
  tls?: { certificate: string; key: string };
  /** Where metrics and health of the nginx are to be had: host:port. */
  status: string;
  /** Unless given: as many as nginx finds right. */
  workers?: number;
  /** The text of dist/lua/nginx/tollgate.lua. */
  bundle: string;
}

export const BUNDLE = "tollgate.lua";
export const SETTINGS = "tollgate-settings.lua";
export const HTTP_INCLUDE = "tollgate-http.conf";
export const LOCATION_INCLUDE = "tollgate-location.conf";
export const STATUS_INCLUDE = "tollgate-status.conf";
export const DEFAULT_STATUS = "127.0.0.1:9146";

/** Throws RenderError. */
export function renderNginx(config: Config, options: RenderOptions): Rendered {
  const warnings: string[] = [];
  requirePlaneToken(config, "nginx");
  const settings = nginxOptions(config, {
    node: options.node ?? "",
    services: serviceAddresses(options.services, "--service", config.control.listen),
    podUpstream,
  });
  const files: RenderedFile[] = [
    { name: BUNDLE, text: options.bundle, secret: false },
    { name: SETTINGS, text: settingsLua(settings as unknown as LuaData), secret: true },
    { name: HTTP_INCLUDE, text: httpInclude(config, settings, options), secret: false },
    { name: LOCATION_INCLUDE, text: locationInclude(), secret: false },
    { name: STATUS_INCLUDE, text: statusInclude(options), secret: false },
  ];
  for (const route of upgradingRoutes(config)) {
    files.push({ name: socketInclude(route), text: socketLocation(config, route), secret: false });
  }
  if (!options.includeOnly)
    files.push({ name: "nginx.conf", text: mainConf(config, settings.connections, options, warnings), secret: false });
  return { files, warnings };
}

function settingsLua(settings: LuaData): string {
  return `-- Written by \`tollgate render nginx\`. Contains the token of the data planes.
return ${luaTable(settings)}
`;
}
