/** Renders what an existing Envoy configuration needs in addition, with comments that say where each part goes. */
import { commentedYaml, NOTE, type YamlSection } from "../commented-yaml.js";
import type { RenderedFile } from "../common.js";
import { DEFAULT_NODE, type EnvoyRenderOptions, FRAGMENT } from "./options.js";
import type { EnvoyParts } from "./parts.js";

export function fragmentFiles(parts: EnvoyParts, options: EnvoyRenderOptions): RenderedFile[] {
  const { clusters, filters, manager, routeConfig, firstRoutes, routes } = parts;
  const ofRoutes: YamlSection = {
    "# 6. Routes with options of their own in the configuration. Add this to your route for the same requests. A route with\nconnections needs a cluster with exactly the configured targets, and no retries.":
      NOTE,
    routes,
  };
  const data: YamlSection = {
    "# 0. Only if your bootstrap has no `node`: Envoy reads files with secrets only with an id and a cluster.": NOTE,
    node: { id: options.node ?? DEFAULT_NODE, cluster: "tollgate" },
    "# 1. Add to `static_resources.clusters`, or to what your CDS serves.": NOTE,
    clusters,
    [`# 2. Add to \`http_filters\` of each HTTP connection manager whose requests are limited, in this order: after filters that\nauthenticate clients, before all that change or answer requests, and before the router. ${exempt(options)}`]:
      NOTE,
    http_filters: filters,
    "# 3. Set in the same connection managers. With other values, clients can choose their address or avoid limits by path.":
      NOTE,
    http_connection_manager: manager,
    "# 4. Set in `route_config`, or in what your RDS serves.": NOTE,
    route_config: routeConfig,
    "# 5. Put before the other routes of each virtual host. They refuse requests that servers read differently.": NOTE,
    first_routes: firstRoutes,
    ...(routes.length === 0 ? {} : ofRoutes),
  };
  return [...parts.files, { name: FRAGMENT, text: commentedYaml(head(options), data), secret: false }];
}

function exempt({ mode }: EnvoyRenderOptions): string {
  if (mode === "rls") return "Routes with a direct response or a redirect are not limited.";
  return "A route\nis exempt if its `typed_per_filter_config` has the entry that the routes of part 5 have.";
}

function head({ mode, path }: EnvoyRenderOptions): string {
  const library =
    mode === "module"
      ? "\nStart Envoy with ENVOY_DYNAMIC_MODULES_SEARCH_PATH set to the folder of libtollgate.so. Nothing is needed in bootstrap_extensions."
      : "";
  return `Written by \`tollgate render envoy --fragment\`. This is no bootstrap: add its parts to your configuration of Envoy 1.38, 1.39 or
1.40, then check that with \`envoy --mode validate\`. The other files are read from ${path}.${library}`;
}
