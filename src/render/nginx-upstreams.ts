/** The upstreams of a configuration as nginx has them. */
import type { Config } from "../config/schema.js";
import type { RenderOptions } from "./nginx.js";
import { resolverAddress } from "./nginx-includes.js";
import { RenderError } from "./render-error.js";

type Upstream = Config["upstreams"][string];

/** Ids may have a colon, which nginx would take for a port. No two ids become the same name. */
export function upstreamName(id: string): string {
  return `tollgate_${id.replace(/[^A-Za-z0-9-]/g, (odd) => `_${odd.charCodeAt(0)}_`)}`;
}

/** "http" or "https", which all targets of an upstream must share here. */
export function schemeOf(id: string, { targets }: Upstream): "http" | "https" {
  const secure = targets.filter((target) => target.startsWith("https://")).length;
  if (secure > 0 && secure < targets.length) {
    throw new RenderError(`upstreams.${id}.targets: nginx needs http:// or https:// for all of them alike`);
  }
  return secure > 0 ? "https" : "http";
}

export function usedUpstreams(config: Config): [string, Upstream][] {
  const used = new Set(config.routes.map(({ upstream }) => upstream));
  return Object.entries(config.upstreams).filter(([id]) => used.has(id));
}

export function upstreamBlocks(config: Config, options: RenderOptions, warnings: string[]): string {
  return usedUpstreams(config)
    .map(([id, upstream]) => {
      if (upstream.active.path !== undefined) {
        warnings.push(`upstreams.${id}.active: nginx asks no target how it is; failed requests alone take one out`);
      }
      return upstream.dns === undefined ? block(id, upstream) : named(id, upstream.dns, options);
    })
    .join("");
}

function block(id: string, { targets, passive, connections }: Upstream): string {
  const { failures, down_ms } = passive;
  const servers = targets.map((target) => {
    const address = target.replace(/^https?:\/\//, "");
    return `        server ${address} max_fails=${failures} fail_timeout=${Math.ceil(down_ms / 1000)}s;\n`;
  });
  return `
    upstream ${upstreamName(id)} {
${servers.join("")}        # Idle connections that each worker keeps.
        keepalive ${Math.min(connections, 128)};
        keepalive_requests 100000;
    }
`;
}

/** Looked up while nginx runs: a variable in proxy_pass does that. Such a backend gets a new connection per request. */
function named(id: string, dns: NonNullable<Upstream["dns"]>, { resolver }: RenderOptions): string {
  if (resolver === undefined) {
    throw new RenderError(`upstreams.${id}.dns: nginx needs --resolver with the address of a name server`);
  }
  return `
    # upstreams.${id}: ${dns.name}, looked up again and again.
    resolver ${resolverAddress(resolver)} valid=${dns.interval_ms}ms;
    map "" $${upstreamName(id).replaceAll("-", "_")} { default "${dns.name}:${dns.port}"; }
`;
}
