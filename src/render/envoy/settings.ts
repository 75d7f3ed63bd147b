/** The script that Envoy runs: the settings of a configuration as a Lua table, and the generated decisions after it. */
import { isIPv6 } from "node:net";
import type { Config } from "../../config/schema.js";
import type { EnvoySettings, TrustedNetwork } from "../../planes/envoy/settings.js";
import { type LuaData, luaTable } from "../lua-table.js";
import { planeSettings } from "../plane-settings.js";
import { RenderError } from "../render-error.js";
import { CONTROL_CLUSTER, SERVICE_CLUSTER } from "./clusters.js";
import type { EnvoyRenderOptions } from "./envoy.js";
import { socketRoutes } from "./socket-routes.js";

export const DEFAULT_NODE = "envoy";

export function envoySettings(config: Config, { node, workers }: EnvoyRenderOptions): EnvoySettings {
  return {
    ...planeSettings(config, node ?? DEFAULT_NODE, "Envoy"),
    clusters: { control: CONTROL_CLUSTER, envoy: SERVICE_CLUSTER },
    trustedHops: config.identity.trusted_hops.map(trustedNetwork),
    // Written by Envoy for every request, as the listener has `use_remote_address` and knows of no internal addresses.
    addressHeader: "x-envoy-external-address",
    sockets: config.routes.some(({ connections }) => connections !== undefined),
    socketRoutes: socketRoutes(config),
    workers: workers ?? config.workers,
    settleByAccessLog: true,
  };
}

export function envoyScript(config: Config, options: EnvoyRenderOptions): string {
  return `-- Written by \`tollgate render envoy\`; it holds the token of the data planes.
local tollgateSettings = ${luaTable(envoySettings(config, options) as unknown as LuaData)}

${options.bundle}`;
}

/** Words of 32 bits, so that the script compares numbers. */
export function trustedNetwork(network: string): TrustedNetwork {
  const [address, prefix] = network.split("/");
  if (address === undefined || prefix === undefined) throw new RenderError(`identity.trusted_hops: ${network}`);
  return { words: isIPv6(address) ? wordsOf6(address) : [wordOf4(address)], bits: Number(prefix) };
}

function wordOf4(address: string): number {
  return address.split(".").reduce((word, part) => word * 256 + Number(part), 0);
}

function wordsOf6(address: string): number[] {
  // An address may end in the form of IPv4.
  const plain = address.replace(/(\d+\.\d+\.\d+\.\d+)$/, (tail) => {
    const word = wordOf4(tail);
    return `${Math.floor(word / 65_536).toString(16)}:${(word % 65_536).toString(16)}`;
  });
  const [head = "", tail] = plain.split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const groups = [...left, ...Array.from({ length: 8 - left.length - right.length }, () => "0"), ...right];
  const word = (at: number) => Number.parseInt(groups[at]!, 16) * 65_536 + Number.parseInt(groups[at + 1]!, 16);
  return [word(0), word(2), word(4), word(6)];
}
