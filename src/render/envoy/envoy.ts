/** Renders a configuration for Envoy: a bootstrap, the Lua script with its options, and optionally dynamic files. */
import { createHash } from "node:crypto";
import { envoyOptions } from "../../config/options/planes.js";
import type { Config } from "../../config/schema.js";
import { type Rendered, type RenderedFile, requirePlaneToken } from "../common.js";
import { type LuaData, luaTable } from "../lua-table.js";
import { bootstrap } from "./bootstrap.js";
import { clusters } from "./clusters.js";
import { CLUSTERS, dynamicFile, LISTENERS, ROUTES } from "./dynamic.js";
import { listener } from "./listener.js";
import {
  BOOTSTRAP,
  CONTROL_CLUSTER,
  DEFAULT_NODE,
  type EnvoyRenderOptions,
  SCRIPT,
  SERVICE_CLUSTER,
} from "./options.js";
import { routeConfig } from "./routes.js";

/** Throws RenderError. */
export function renderEnvoy(config: Config, options: EnvoyRenderOptions): Rendered {
  const warnings: string[] = [];
  const script = options.mode === "lua" ? envoyScript(config, options) : "";
  const files: RenderedFile[] = script === "" ? [] : [{ name: SCRIPT, text: script, secret: true }];
  // A file comes before those that refer to it, because a running Envoy may read each as soon as it is written.
  if (options.dynamic === true) files.push(...dynamicFiles(config, options, script, warnings));
  files.push({ name: BOOTSTRAP, text: bootstrap(config, options, warnings), secret: true });
  return { files, warnings };
}

function dynamicFiles(config: Config, options: EnvoyRenderOptions, script: string, warnings: string[]): RenderedFile[] {
  const version = createHash("sha1").update(script).digest("hex").slice(0, 12);
  const kept = "A change keeps open WebSockets.";
  const drained = "A change closes open connections after --drain-time-s, including WebSockets.";
  const texts = {
    [CLUSTERS]: dynamicFile(CLUSTERS, `Clusters. ${kept}`, clusters(config, options)),
    [ROUTES]: dynamicFile(ROUTES, `Routes and the script. ${kept}`, [routeConfig(config, options, version)]),
    [LISTENERS]: dynamicFile(LISTENERS, `The listener. ${drained}`, [listener(config, options, warnings)]),
  };
  return Object.entries(texts).map(([name, text]) => ({ name, text, secret: name === LISTENERS }));
}

/** The script that Envoy runs: its options as a Lua table, followed by the bundle. */
function envoyScript(config: Config, { node, workers, bundle }: EnvoyRenderOptions): string {
  requirePlaneToken(config, "Envoy");
  const options = envoyOptions(config, {
    node: node ?? DEFAULT_NODE,
    workers,
    clusters: { control: CONTROL_CLUSTER, envoy: SERVICE_CLUSTER },
    // Envoy writes it for every request: the listener has `use_remote_address` and no internal addresses.
    addressHeader: "x-envoy-external-address",
    settleByAccessLog: true,
  });
  return `-- Written by \`tollgate render envoy\`. Contains the token of the data planes.
local tollgateOptions = ${luaTable(options as unknown as LuaData)}

${bundle}`;
}
