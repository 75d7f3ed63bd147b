/** Options of `renderNginx` and the names of the files that it writes. */

export interface RenderOptions {
  /** Absolute path of the folder from which nginx will read the files. */
  path: string;
  /** `host:port` of the services' control listeners. */
  services: string[];
  /** Default: host name and process id of the nginx. */
  node?: string | undefined;
  flavour: "debian" | "openresty";
  /** Write only the includes, for an nginx that already has a configuration. */
  includeOnly: boolean;
  /** Folder for pid file, logs and temporary files of an nginx that is not the system's. */
  runDir?: string | undefined;
  /** Name server for service names and for upstreams with `dns`. */
  resolver?: string | undefined;
  tls?: { certificate: string; key: string } | undefined;
  /** `host:port` of the listener for metrics and health. */
  status: string;
  /** Default: `auto`. */
  workers?: number | undefined;
  /** The text of dist/lua/nginx/tollgate.lua. */
  bundle: string;
}

export const BUNDLE = "tollgate.lua";
export const OPTIONS = "tollgate-settings.lua";
export const HTTP_INCLUDE = "tollgate-http.conf";
export const LOCATION_INCLUDE = "tollgate-location.conf";
export const STATUS_INCLUDE = "tollgate-status.conf";
export const DEFAULT_STATUS = "127.0.0.1:9146";
