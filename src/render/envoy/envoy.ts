/** A configuration as files for Envoy: a whole bootstrap, and beside it the script that decides, with its settings. */
import { createHash } from "node:crypto";
import type { Config } from "../../config/schema.js";
import type { Rendered, RenderedFile } from "../rendered.js";
import { bootstrap } from "./bootstrap.js";
import { clusters } from "./clusters.js";
import { CLUSTERS, dynamicFile, LISTENERS, ROUTES } from "./dynamic.js";
import { listener } from "./listener.js";
import { routeConfig } from "./routes.js";
import { envoyScript } from "./script.js";

export interface EnvoyRenderOptions {
  /** Where the files will lie when Envoy reads them: an absolute path. */
  path: string;
  /** `lua`: decided in Envoy, from a lease. `rls`: asked of the service for each request, by Envoy's own filter. */
  mode: "lua" | "rls";
  /** `host:port` of the services' control listeners. */
  services: string[];
  /** `host:port` of their listeners for Envoy (`envoy.listen`). */
  envoyServices: string[];
  /** Unless given: "envoy". Every worker adds letters of its own, so several may share it. */
  node?: string;
  /** Where clients arrive; unless given: `listen` of the configuration. */
  listen?: string;
  /** Threads that Envoy will have (`--concurrency`); unless given: `workers` of the configuration. */
  workers?: number;
  /** Envoy's own pages: host:port. */
  admin: string;
  /** Connections of clients at most. */
  maxConnections: number;
  /** A load balancer in front, such as AWS's ALB. */
  balancer?: Balancer;
  tls?: { certificate: string; key: string };
  /** What may change is in files of its own, which a running Envoy reads again. */
  dynamic?: boolean;
  /** The text of dist/lua/envoy/tollgate.lua; not needed for `rls`. */
  bundle: string;
}

export interface Balancer {
  /** How many proxies in front append to X-Forwarded-For. */
  hops: number;
  /** After this without a byte it closes a connection. */
  idleMs: number;
  /** Where it asks whether this Envoy is well. */
  healthPath: string;
}

export const BOOTSTRAP = "envoy.yaml";
export const SCRIPT = "tollgate.lua";
export const DEFAULT_ADMIN = "127.0.0.1:9901";
export const DEFAULT_CONNECTIONS = 100_000;
export const DEFAULT_BALANCER: Balancer = { hops: 1, idleMs: 60_000, healthPath: "/healthz" };

/** Throws RenderError. */
export function renderEnvoy(config: Config, options: EnvoyRenderOptions): Rendered {
  const warnings: string[] = [];
  const script = options.mode === "lua" ? envoyScript(config, options) : "";
  const files: RenderedFile[] = script === "" ? [] : [{ name: SCRIPT, text: script, secret: true }];
  // Whatever is named by another file comes before it, as a running Envoy may read each as soon as it is there.
  if (options.dynamic === true) files.push(...dynamicFiles(config, options, script, warnings));
  files.push({ name: BOOTSTRAP, text: bootstrap(config, options, warnings), secret: true });
  return { files, warnings };
}

function dynamicFiles(config: Config, options: EnvoyRenderOptions, script: string, warnings: string[]): RenderedFile[] {
  const version = createHash("sha1").update(script).digest("hex").slice(0, 12);
  const kept = "WebSockets that are open stay when it changes.";
  const drained = "When it changes, connections that are open end after --drain-time-s, WebSockets as well.";
  const texts = {
    [CLUSTERS]: dynamicFile(CLUSTERS, `Where requests go. ${kept}`, clusters(config, options)),
    [ROUTES]: dynamicFile(ROUTES, `Routes, and the script. ${kept}`, [routeConfig(config, options, version)]),
    [LISTENERS]: dynamicFile(LISTENERS, `Where clients arrive. ${drained}`, [listener(config, options, warnings)]),
  };
  return Object.entries(texts).map(([name, text]) => ({ name, text, secret: name === LISTENERS }));
}
