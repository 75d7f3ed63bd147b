/** The parts of an Envoy configuration that enforce limits, for an Envoy whose listeners and routes belong to someone else. */
import { hasOwnOptions } from "../../config/options/planes.js";
import type { Config } from "../../config/schema.js";
import { keepVersion } from "../../config/version.js";
import type { YamlSection } from "../commented-yaml.js";
import type { RenderedFile } from "../common.js";
import { serviceClusters } from "./clusters.js";
import { tollgateFilters } from "./filters.js";
import { requiredSettings } from "./listener.js";
import type { EnvoyRenderOptions } from "./options.js";
import { headerRules, refusals, requiredOfRoute } from "./routes.js";
import { scriptFiles } from "./script.js";
import { secretFiles } from "./secrets.js";

export interface EnvoyParts {
  /** Files that the other parts refer to by their path. */
  files: RenderedFile[];
  clusters: YamlSection[];
  filters: YamlSection[];
  /** Settings of the HTTP connection manager. */
  manager: YamlSection;
  /** Settings of the route configuration. */
  routeConfig: YamlSection;
  /** Routes that come before all others of a virtual host. */
  firstRoutes: YamlSection[];
  /** What single routes need, with the condition that identifies them in the configuration. */
  routes: YamlSection[];
}

/** Throws RenderError. */
export function envoyParts(given: Config, options: EnvoyRenderOptions, warnings: string[]): EnvoyParts {
  const config = withSeveralRoutes(given);
  const routes = config.routes.filter(
    (route) => hasOwnOptions(route) || (route.connections !== undefined && options.mode === "module"),
  );
  return {
    files: [...secretFiles({ ...config, routes: [] }, options), ...scriptFiles(config, options)],
    clusters: serviceClusters(config, options),
    filters: tollgateFilters(config, options),
    manager: requiredSettings(config, options, warnings),
    routeConfig: headerRules(config, options),
    firstRoutes: refusals(config, options),
    routes: routes.map((route) => requiredOfRoute(config, route, options)),
  };
}

/** The other Envoy has routes of its own, so encoded slashes are rejected unless the configuration keeps them. */
function withSeveralRoutes(config: Config): Config {
  const { encoded_slashes: slashes = "reject" } = config.request_limits;
  return keepVersion(config, { ...config, request_limits: { ...config.request_limits, encoded_slashes: slashes } });
}
