/** The upstreams of a configuration as nginx has them. */
import type { Config } from "../../config/schema.js";
import { RenderError } from "../render-error.js";
import { schemeOf as schemeFor, type Upstream, upstreamName, usedUpstreams } from "../upstreams.js";
import { resolverAddress } from "./includes.js";
import type { RenderOptions } from "./nginx.js";

export { upstreamName, usedUpstreams };

export function schemeOf(id: string, upstream: Upstream): "http" | "https" {
  return schemeFor(id, upstream, "nginx");
}

/** Where an upstream's name is looked up while nginx runs, this has it. */
export function upstreamVariable(id: string): string {
  return `$${upstreamName(id).replaceAll("-", "_")}`;
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
    map "" ${upstreamVariable(id)} { default "${dns.name}:${dns.port}"; }
`;
}
