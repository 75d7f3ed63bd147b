/** `tollgate render --resolve`: replaces upstreams with `dns` by their current addresses. */
import { lookup } from "node:dns/promises";
import { isIPv6 } from "node:net";
import type { Config } from "../../config/schema.js";
import { keepVersion } from "../../config/version.js";
import { RenderError, type RenderedFile } from "../../render/common.js";

/** One line per name, with its addresses. The operator compares them with DNS and renders again when they differ. */
const ADDRESSES = "addresses.txt";

export interface Resolved {
  config: Config;
  file: RenderedFile;
}

/** Throws RenderError if a name has no address. */
export async function resolveUpstreams(config: Config, addressesOf = systemAddresses): Promise<Resolved> {
  const found = new Map<string, string[]>();
  const upstreams = { ...config.upstreams };
  for (const [id, upstream] of Object.entries(upstreams)) {
    if (upstream.dns === undefined) continue;
    const { name, port } = upstream.dns;
    const addresses = await addressesOf(name).catch((error: Error) => {
      throw new RenderError(`upstreams.${id}.dns.name: ${name} cannot be resolved: ${error.message}`);
    });
    const unique = [...new Set(addresses)].sort();
    if (unique.length === 0) throw new RenderError(`upstreams.${id}.dns.name: ${name} has no address`);
    found.set(name, unique);
    const targets = unique.map((address) => (isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`));
    upstreams[id] = { ...upstream, targets, dns: undefined };
  }
  const lines = [...found].map(([name, addresses]) => `${[name, ...addresses].join(" ")}\n`);
  return {
    config: keepVersion(config, { ...config, upstreams }),
    file: { name: ADDRESSES, text: lines.join(""), secret: false },
  };
}

async function systemAddresses(name: string): Promise<string[]> {
  return (await lookup(name, { all: true, verbatim: true })).map(({ address }) => address);
}
