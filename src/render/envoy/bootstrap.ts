/** Renders a complete Envoy bootstrap: listener, routes, clusters, timeouts and limits. */
import type { Config } from "../../config/schema.js";
import { commentedYaml, NOTE, type YamlData } from "../commented-yaml.js";
import { addressOf, RenderError } from "../common.js";
import { clusters } from "./clusters.js";
import { extension, socketAddress } from "./common.js";
import { dynamicResources } from "./dynamic.js";
import { listener } from "./listener.js";
import { BOOTSTRAP, DEFAULT_NODE, type EnvoyRenderOptions } from "./options.js";

export function bootstrap(config: Config, options: EnvoyRenderOptions, warnings: string[]): string {
  if (config.routes.length === 0) throw new RenderError("routes is empty: there is nothing to render for Envoy");
  const drain = Math.max(Math.ceil(config.timeouts.shutdown_ms / 1000), 1);
  const workers = options.workers ?? config.workers;
  const head = `Written by \`tollgate render envoy\`. Do not edit: change the configuration and render it again.
Contains the token of the data planes: only the user that runs Envoy may read it. For Envoy 1.38 or later. Check and start it with

  envoy --mode validate -c ${BOOTSTRAP}
  envoy -c ${BOOTSTRAP} --concurrency ${workers} --drain-time-s ${drain} --parent-shutdown-time-s ${drain + 5}

Use this --concurrency: while the store is unavailable, each worker thread admits 1/${workers} of the limits.
${change(options)}`;
  const data: YamlData = {
    node: { id: options.node ?? DEFAULT_NODE, cluster: "tollgate" },
    "# Envoy's admin interface. It can stop Envoy: keep it on the loopback address.": NOTE,
    admin: { address: socketAddress(addressOf(options.admin, "--admin")) },
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
    ...(options.dynamic === true
      ? dynamicResources(options.path)
      : {
          static_resources: {
            listeners: [listener(config, options, warnings)],
            clusters: clusters(config, options),
          },
        }),
  };
  return commentedYaml(head, data);
}

function change({ dynamic }: EnvoyRenderOptions): string {
  const restart =
    "a hot restart: start the same command with --restart-epoch 1 (then 2, …) while the old process runs.";
  return dynamic === true
    ? `Envoy reloads the other files as soon as they are replaced. A change of this file needs ${restart}`
    : `A change of this file needs ${restart}`;
}
