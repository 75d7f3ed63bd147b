/** Tells whether an address belongs to one of the networks whose word is believed. */
import { BlockList, isIP } from "node:net";

export type HopTrust = (address: string) => boolean;

/** From networks (`10.0.0.0/8`, `::1/128`) and single addresses; throws for anything else. */
export function createHopTrust(networks: readonly string[]): HopTrust {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", prefix] = network.split("/");
    const family = familyOf(address);
    if (family === undefined) throw new Error(`"${network}" is no network`);
    if (prefix === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(prefix), family);
  }
  return (address) => {
    const family = familyOf(address);
    return family !== undefined && list.check(address, family);
  };
}

function familyOf(address: string): "ipv4" | "ipv6" | undefined {
  const version = isIP(address);
  if (version === 0) return undefined;
  return version === 4 ? "ipv4" : "ipv6";
}

/** An IPv4 address as it is written everywhere else, though a socket for both families prefixes it. */
export function plainAddress(address: string): string {
  return address.startsWith("::ffff:") && address.includes(".") ? address.slice(7) : address;
}
