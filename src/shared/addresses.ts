/** Matches IP addresses against lists of networks. */
import { BlockList, isIP } from "node:net";

export type AddressMatcher = (address: string) => boolean;

/** From networks (`10.0.0.0/8`, `::1/128`) and single addresses; throws for anything else. */
export function createAddressMatcher(networks: readonly string[]): AddressMatcher {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", prefix] = network.split("/");
    const family = familyOf(address);
    if (family === undefined) throw new Error(`invalid network: "${network}"`);
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

/** Sockets that accept both families prefix IPv4 addresses with `::ffff:`; this removes the prefix. */
export function plainAddress(address: string): string {
  return address.startsWith("::ffff:") && address.includes(".") ? address.slice(7) : address;
}
