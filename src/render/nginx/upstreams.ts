/** Renders the upstreams of a configuration as nginx upstream blocks. */
import type { Config } from "../../config/schema.js";
import { RenderError, type Upstream, upstreamName, usedUpstreams } from "../common.js";
import { resolverAddress } from "./directives.js";
import type { RenderOptions } from "./options.js";

/** What proxy_pass names: the upstream block, or the variable of an upstream that is resolved while nginx runs. */
export function proxyTarget(id: string, { dns }: Upstream): string {
  return dns === undefined ? upstreamName(id) : variableOf(id);
}

function variableOf(id: string): string {
  return `$${upstreamName(id).replaceAll("-", "_")}`;
}

export function upstreamBlocks(config: Config, options: RenderOptions, warnings: string[]): string {
  return usedUpstreams(config)
    .map(([id, upstream]) => {
      if (upstream.active.path !== undefined) {
        warnings.push(
          `upstreams.${id}.active: nginx has no active health checks; only failed requests mark a target as down`,
        );
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
${servers.join("")}        # Idle connections kept per worker.
        keepalive ${Math.min(connections, 128)};
        keepalive_requests 100000;
    }
`;
}

/** A variable in proxy_pass makes nginx resolve the name while it runs, at the price of a new connection per request. */
function named(id: string, dns: NonNullable<Upstream["dns"]>, { resolver }: RenderOptions): string {
  if (resolver === undefined) {
    throw new RenderError(`upstreams.${id}.dns: nginx needs --resolver with the address of a name server`);
  }
  return `
    # upstreams.${id}: ${dns.name}, resolved repeatedly.
    resolver ${resolverAddress(resolver)} valid=${dns.interval_ms}ms;
    map "" ${variableOf(id)} { default "${dns.name}:${dns.port}"; }
`;
}
