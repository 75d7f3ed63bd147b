/** What every other proxy is told of the upstreams of a configuration. */
import type { Config } from "../config/schema.js";
import { RenderError } from "./render-error.js";

export type Upstream = Config["upstreams"][string];

/** Ids may have a colon, which proxies would take for a port. No two ids become the same name. */
export function upstreamName(id: string): string {
  return `tollgate_${id.replace(/[^A-Za-z0-9-]/g, (odd) => `_${odd.charCodeAt(0)}_`)}`;
}

/** "http" or "https", which all targets of an upstream must share there. */
export function schemeOf(id: string, { targets }: Upstream, proxy: string): "http" | "https" {
  const secure = targets.filter((target) => target.startsWith("https://")).length;
  if (secure > 0 && secure < targets.length) {
    throw new RenderError(`upstreams.${id}.targets: ${proxy} needs http:// or https:// for all of them alike`);
  }
  return secure > 0 ? "https" : "http";
}

export function usedUpstreams(config: Config): [string, Upstream][] {
  const used = new Set(config.routes.map(({ upstream }) => upstream));
  return Object.entries(config.upstreams).filter(([id]) => used.has(id));
}
