/** A configuration as files for Envoy: a whole bootstrap, and beside it the script that decides, with its settings. */
import type { Config } from "../config/schema.js";
import { bootstrap } from "./envoy-bootstrap.js";
import { envoyScript } from "./envoy-settings.js";
import type { Rendered, RenderedFile } from "./rendered.js";

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
  const files: RenderedFile[] = [{ name: BOOTSTRAP, text: bootstrap(config, options, warnings), secret: true }];
  if (options.mode === "lua") files.push({ name: SCRIPT, text: envoyScript(config, options), secret: true });
  return { files, warnings };
}
