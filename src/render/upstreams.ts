/** Upstreams of a configuration, as nginx and Envoy need them. */
import type { Config } from "../config/schema.js";
import { RenderError } from "./files.js";

export type Upstream = Config["upstreams"][string];

/** Ids may contain a colon, which proxies would read as a port. The mapping is injective. */
export function upstreamName(id: string): string {
  return `tollgate_${id.replace(/[^A-Za-z0-9-]/g, (odd) => `_${odd.charCodeAt(0)}_`)}`;
}

/** Throws RenderError if the targets of an upstream differ in their scheme. */
export function schemeOf(id: string, { targets }: Upstream, proxy: string): "http" | "https" {
  const secure = targets.filter((target) => target.startsWith("https://")).length;
  if (secure > 0 && secure < targets.length) {
    throw new RenderError(
      `upstreams.${id}.targets: ${proxy} needs the same scheme, http:// or https://, for all of them`,
    );
  }
  return secure > 0 ? "https" : "http";
}

export function usedUpstreams(config: Config): [string, Upstream][] {
  const used = new Set(config.routes.map(({ upstream }) => upstream));
  return Object.entries(config.upstreams).filter(([id]) => used.has(id));
}
