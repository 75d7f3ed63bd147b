/** Renders a configuration for Envoy: a bootstrap, the script of the module, and optionally dynamic files; or parts of it. */
import { createHash } from "node:crypto";
import { hasOwnOptions } from "../../config/options/planes.js";
import type { Config } from "../../config/schema.js";
import { commentedYaml, NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { addressOf, RenderError, type Rendered, type RenderedFile, refuseIdentity } from "../common.js";
import { clusters } from "./clusters.js";
import { extension, fromFile, socketAddress, TYPES } from "./common.js";
import { gatewayFiles } from "./envoy-gateway.js";
import { moduleExtension } from "./filters.js";
import { fragmentFiles } from "./fragment.js";
import { istioFiles } from "./istio.js";
import { listener } from "./listener.js";
import {
  ADMIN_SOCKET,
  BOOTSTRAP,
  CLUSTERS,
  DEFAULT_NODE,
  type EnvoyForm,
  type EnvoyRenderOptions,
  LISTENERS,
  ROUTES,
} from "./options.js";
import { envoyParts } from "./parts.js";
import { routeConfig } from "./routes.js";
import { scriptFiles } from "./script.js";
import { secretFiles } from "./secrets.js";

/** Limit of the system. */
const LONGEST_SOCKET = 107;

/** Throws RenderError. */
export function renderEnvoy(config: Config, options: EnvoyRenderOptions): Rendered {
  const warnings: string[] = [];
  const [limit] = config.limits;
  if (options.mode === "rls" && limit !== undefined) {
    throw new RenderError(
      `limits: Envoy cannot enforce ${limit.name} with --mode rls; use --mode module, or remove limits`,
    );
  }
  refuseIdentity(config, "Envoy");
  if (options.mode === "rls" && config.routes.some(hasOwnOptions)) {
    warnings.push("routes: --mode rls takes one token per request, so profile and cost_header have no effect");
  }
  if (options.mode === "module" && options.envoyServices.length > 0) {
    warnings.push("--envoy-service has no effect without --mode rls: the module calls the control listeners");
  }
  if (options.form !== undefined && options.form !== "bootstrap") {
    return { files: partialFiles(config, { ...options, form: options.form }, warnings), warnings };
  }
  const files: RenderedFile[] = [...secretFiles(config, options), ...scriptFiles(config, options)];
  // A file comes before those that refer to it, because a running Envoy may read each as soon as it is written.
  if (options.dynamic) files.push(...dynamicFiles(config, options, warnings));
  files.push({ name: BOOTSTRAP, text: bootstrap(config, options, warnings), secret: false });
  return { files, warnings };
}

/** For an Envoy that someone else configures. */
function partialFiles(
  config: Config,
  options: EnvoyRenderOptions & { form: Exclude<EnvoyForm, "bootstrap"> },
  warnings: string[],
): RenderedFile[] {
  const parts = envoyParts(config, options, warnings);
  const { form, kubernetes } = options;
  if (form === "fragment") return fragmentFiles(parts, options);
  if (kubernetes === undefined) throw new RenderError(`--${form} needs a namespace`);
  if (parts.routes.length > 0) {
    warnings.push(`routes: profile, cost_header and connections have no effect with --${form}; upgrades are refused`);
  }
  return (form === "istio" ? istioFiles : gatewayFiles)(parts, options, kubernetes);
}

function dynamicFiles(config: Config, options: EnvoyRenderOptions, warnings: string[]): RenderedFile[] {
  const kept = "A change keeps open WebSockets.";
  const drained = "A change closes open connections after --drain-time-s, including WebSockets.";
  const texts = {
    [CLUSTERS]: dynamicFile("cluster.v3.Cluster", `Clusters. ${kept}`, clusters(config, options)),
    [ROUTES]: dynamicFile("route.v3.RouteConfiguration", `Routes. ${kept}`, [routeConfig(config, options)]),
    [LISTENERS]: dynamicFile("listener.v3.Listener", `The listener. ${drained}`, [listener(config, options, warnings)]),
  };
  return Object.entries(texts).map(([name, text]) => ({ name, text, secret: false }));
}

/** It begins with a letter, so that YAML does not take it for a number. */
function versionOf(text: string): string {
  return `v${createHash("sha1").update(text).digest("hex").slice(0, 12)}`;
}

/** A file that Envoy reloads. `type` omits the prefix of configurations. */
function dynamicFile(type: string, note: string, resources: readonly YamlSection[]): string {
  const head = `Written by \`tollgate render envoy --dynamic\`. Do not edit: change the configuration and render it again.\n${note}`;
  const typed = resources.map((resource) => ({ "@type": `${TYPES}.config.${type}`, ...resource }));
  // Shown by `/config_dump` of the admin interface.
  const version = versionOf(JSON.stringify(typed));
  return commentedYaml(head, { version_info: version, resources: typed });
}

/** The complete configuration: listener, routes, clusters, timeouts and limits. */
function bootstrap(config: Config, options: EnvoyRenderOptions, warnings: string[]): string {
  if (config.routes.length === 0) throw new RenderError("routes is empty: there is nothing to render for Envoy");
  const { path, dynamic } = options;
  const drain = Math.max(Math.ceil(config.timeouts.shutdown_ms / 1000), 1);
  const workers = options.workers ?? config.workers;
  const others = dynamic ? "Envoy reloads the other files as soon as they are replaced. " : "";
  const head = `Written by \`tollgate render envoy\`. Do not edit: change the configuration and render it again.
For Envoy ${options.mode === "rls" ? "1.36 or later" : "1.38, 1.39 or 1.40"}. Check and start it with

  envoy --mode validate -c ${BOOTSTRAP}
  envoy -c ${BOOTSTRAP} --concurrency ${workers} --drain-time-s ${drain} --parent-shutdown-time-s ${drain + 5}

${library(options)}${others}A change of this file needs a hot restart: start the same command with --restart-epoch 1 (then 2, …) while the old process runs.`;
  const data: YamlData = {
    node: { id: options.node ?? DEFAULT_NODE, cluster: "tollgate" },
    "# Envoy's admin interface. It can stop Envoy: only its user may call it.": NOTE,
    admin: { address: adminAddress(options) },
    ...(options.mode === "module"
      ? {
          "# When Envoy exits, the module returns its tokens and connection slots.": NOTE,
          bootstrap_extensions: [moduleExtension()],
        }
      : {}),
    "# Maximum number of client connections; further ones are closed at once. Envoy has no limit by default.": NOTE,
    overload_manager: {
      resource_monitors: [
        extension(
          "envoy.resource_monitors.global_downstream_max_connections",
          "extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
          { max_active_downstream_connections: options.maxConnections },
        ),
      ],
    },
    ...(dynamic
      ? {
          "# Envoy reloads these files when they are replaced, and ignores an invalid file.": NOTE,
          dynamic_resources: { lds_config: fromFile(path, LISTENERS), cds_config: fromFile(path, CLUSTERS) },
        }
      : {
          static_resources: { listeners: [listener(config, options, warnings)], clusters: clusters(config, options) },
        }),
  };
  return commentedYaml(head, data);
}

function library({ mode }: EnvoyRenderOptions): string {
  if (mode === "rls") return "";
  return "Set ENVOY_DYNAMIC_MODULES_SEARCH_PATH to the folder of libtollgate.so for both commands.\n";
}

/** A Unix socket for the user that runs Envoy, unless an address is given. */
function adminAddress({ admin, path }: EnvoyRenderOptions): YamlData {
  if (admin !== undefined && !admin.startsWith("/")) return socketAddress(addressOf(admin, "--admin"));
  const pipe = admin ?? `${path}/${ADMIN_SOCKET}`;
  if (Buffer.byteLength(pipe) > LONGEST_SOCKET) {
    throw new RenderError(`--admin ${pipe}: the path of a Unix socket has at most ${LONGEST_SOCKET} bytes`);
  }
  return { pipe: { path: pipe, mode: 0o600 } };
}
