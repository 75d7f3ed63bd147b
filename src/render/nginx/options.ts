/** Options of `renderNginx` and the names of the files that it writes. */
import type { CommonRenderOptions, Route } from "../common.js";

/** Without `node`, nginx uses its host name and process id; the default of `workers` is `auto`. */
export interface RenderOptions extends CommonRenderOptions {
  flavour: "debian" | "openresty";
  /** Write only the includes, for an nginx that already has a configuration. */
  includeOnly: boolean;
  /** With `includeOnly`: no Lua directives, because nginx allows each only once per block and the configuration has its own. */
  ownLua?: boolean;
  /** Address for clients in nginx.conf. Default: `listen` of the configuration. */
  listen?: string | undefined;
  /** Folder for pid file, logs and temporary files of an nginx that is not the system's. */
  runDir?: string | undefined;
  /** Name server for service names and for upstreams with `dns`. */
  resolver?: string | undefined;
  /** Open files that the system permits a worker; undefined: as many as are needed. */
  openFiles?: number | undefined;
  /** `host:port` of the listener for metrics and health. */
  status: string;
}

export const BUNDLE = "tollgate.lua";
export const OPTIONS = "tollgate-settings.lua";
export const HTTP_INCLUDE = "tollgate-http.conf";
export const LOCATION_INCLUDE = "tollgate-location.conf";
export const STATUS_INCLUDE = "tollgate-status.conf";
/** The includes of routes with connections, and of other routes with options of their own. */
export const socketInclude = (route: Route) => `tollgate-connections${fileNameOf(route)}.conf`;
export const routeInclude = (route: Route) => `tollgate-route${fileNameOf(route)}.conf`;
export const DEFAULT_STATUS = "127.0.0.1:9146";

/** Unique per route. */
function fileNameOf({ host, path }: Route): string {
  const odd = (letter: string) => (letter === "/" ? "_" : `~${letter.charCodeAt(0)}`);
  return `${host === undefined ? "" : `-${host}`}${path.replace(/[^A-Za-z0-9.-]/g, odd)}`;
}
