/** Renders a configuration for nginx: the Lua bundle, its options, the includes and optionally a complete nginx.conf. */
import { hasOwnOptions, nginxOptions } from "../../config/options/planes.js";
import type { Config } from "../../config/schema.js";
import {
  planeToken,
  type Rendered,
  type RenderedFile,
  refuseIdentity,
  serviceAddresses,
  upgradingRoutes,
} from "../common.js";
import { type LuaData, luaTable } from "../lua-table.js";
import { httpInclude, locationInclude, routeLocation, statusInclude } from "./includes.js";
import { mainConf } from "./main-conf.js";
import { workerFiles } from "./open-files.js";
import {
  BUNDLE,
  HTTP_INCLUDE,
  LOCATION_INCLUDE,
  OPTIONS,
  type RenderOptions,
  routeInclude,
  STATUS_INCLUDE,
  socketInclude,
} from "./options.js";
import { serviceTls } from "./service-tls.js";
import { podUpstream, socketLocation } from "./sockets.js";

/** Throws RenderError. */
export function renderNginx(config: Config, options: RenderOptions): Rendered {
  const warnings: string[] = [];
  refuseIdentity(config, "nginx");
  const services = serviceAddresses(options.services, "--service", config.control.listen, "control.listen");
  const plane = nginxOptions(config, {
    node: options.node ?? "",
    planeToken: planeToken(config, options, "nginx"),
    services,
    serviceTls: serviceTls(config, services, options),
    podUpstream,
    openFiles: (sockets) => (options.includeOnly ? 0 : workerFiles(sockets, options.openFiles).files),
  });
  const optionsLua = `-- Written by \`tollgate render nginx\`. Contains the token of the data planes.
return ${luaTable(plane as unknown as LuaData)}
`;
  const files: RenderedFile[] = [
    { name: BUNDLE, text: options.bundle, secret: false },
    { name: OPTIONS, text: optionsLua, secret: true },
    { name: HTTP_INCLUDE, text: httpInclude(config, plane, options), secret: false },
    { name: LOCATION_INCLUDE, text: locationInclude(config, options), secret: false },
    { name: STATUS_INCLUDE, text: statusInclude(options), secret: false },
  ];
  for (const route of upgradingRoutes(config)) {
    files.push({ name: socketInclude(route), text: socketLocation(config, route), secret: false });
  }
  for (const route of config.routes) {
    if (route.connections !== undefined || !hasOwnOptions(route)) continue;
    files.push({ name: routeInclude(route), text: routeLocation(config, route, options), secret: false });
  }
  if (!options.includeOnly)
    files.push({ name: "nginx.conf", text: mainConf(config, plane.connections, options, warnings), secret: false });
  return { files, warnings };
}
