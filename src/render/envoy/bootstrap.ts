/** A whole bootstrap for Envoy from a configuration: listener, routes, clusters, timeouts and limits, with a word on each. */
import type { Config } from "../../config/schema.js";
import { commentedYaml, NOTE, type YamlData } from "../commented-yaml.js";
import { RenderError } from "../render-error.js";
import { addressOf } from "../services.js";
import { clusters } from "./clusters.js";
import { dynamicResources } from "./dynamic.js";
import { BOOTSTRAP, type EnvoyRenderOptions } from "./envoy.js";
import { listener } from "./listener.js";
import { DEFAULT_NODE } from "./script.js";
import { extension, socketAddress } from "./words.js";

export function bootstrap(config: Config, options: EnvoyRenderOptions, warnings: string[]): string {
  if (config.routes.length === 0) throw new RenderError("there are no routes: Envoy would have nothing to do");
  const drain = Math.max(Math.ceil(config.timeouts.shutdown_ms / 1000), 1);
  const head = `Written by \`tollgate render envoy\`: change the configuration and render it again.
It holds the token of the data planes: keep it to the user that runs Envoy. Envoy 1.38 or later; check and start it with

  envoy --mode validate -c ${BOOTSTRAP}
  envoy -c ${BOOTSTRAP} --concurrency ${options.workers ?? config.workers} --drain-time-s ${drain} --parent-shutdown-time-s ${drain + 5}

Without --concurrency there are as many threads as cores, and each passes its part of ${options.workers ?? config.workers} while the store is gone.
${change(options)}`;
  const data: YamlData = {
    node: { id: options.node ?? DEFAULT_NODE, cluster: "tollgate" },
    "# Envoy's own pages and statistics. Whoever reaches them can stop it: loopback only.": NOTE,
    admin: { address: socketAddress(addressOf(options.admin, "--admin")) },
    "# Connections beyond are closed at once; without this they would be as many as the system lets there be.": NOTE,
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
  const restart = "a hot restart: the same with --restart-epoch 1 (then 2, …) while the old one runs.";
  return dynamic === true
    ? `The files beside it are taken over as soon as they are replaced; this one alone needs ${restart}`
    : `A changed file is taken over by ${restart}`;
}
