/** Matches IP addresses against lists of networks. */
import { BlockList, isIP, isIPv6 } from "node:net";

export type AddressMatcher = (address: string) => boolean;

/** Results that a matcher remembers: most requests come from few addresses, and looking one up costs a microsecond. */
const MOST_REMEMBERED = 1_024;

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
  const remembered = new Map<string, boolean>();
  return (address) => {
    const known = remembered.get(address);
    if (known !== undefined) return known;
    const family = familyOf(address);
    if (family === undefined) return false;
    const matches = list.check(address, family);
    if (remembered.size >= MOST_REMEMBERED) remembered.clear();
    remembered.set(address, matches);
    return matches;
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

/** An IPv6 host usually has a whole /64, which counts as one address. */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = "", tail = ""] = address.replace(/%.*/, "").toLowerCase().split("::");
  const groups = (text: string) => (text === "" ? [] : text.split(":"));
  const missing = Math.max(8 - groups(head).length - groups(tail).length, 0);
  const all = [...groups(head), ...Array<string>(address.includes("::") ? missing : 0).fill("0"), ...groups(tail)];
  return all
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}
