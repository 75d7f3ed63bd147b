/** Slows down whoever guesses tokens: after a few wrong ones an address is not even listened to for a while. */
import { isIPv6 } from "node:net";

export interface FailedLogins {
  /** How long this address must wait before a token of its is looked at; 0: not at all. */
  waitMs(address: string): number;
  failed(address: string): void;
  /** The right token came from there. */
  succeeded(address: string): void;
}

export interface FailedLoginsOptions {
  /** Milliseconds that never go back. */
  now(): number;
  /** Wrong tokens per minute and address. */
  perMinute?: number;
  /** So many addresses are remembered; of more, the one that was heard of longest ago is forgotten. */
  mostAddresses?: number;
}

interface Visitor {
  since: number;
  failures: number;
  /** Until then this address is known to have the right token. */
  knownUntil: number;
}

const MINUTE_MS = 60_000;
/** Whoever has shown the right token works here, and must not be shut out by what else fails at that address. */
const KNOWN_MS = 60 * MINUTE_MS;

/**
 * A locked address is not listened to even with the right token, or the lock would stop nobody from guessing. An address
 * from which the right token came within the last hour is never locked: data planes and operators who share it with a
 * script that has an old token go on working. What that costs is that such an address may guess on.
 */
export function createFailedLogins(options: FailedLoginsOptions): FailedLogins {
  const { now, perMinute = 10, mostAddresses = 1_000 } = options;
  const visitors = new Map<string, Visitor>();

  function visitor(address: string): Visitor {
    const key = neighbourhood(address);
    const found = visitors.get(key) ?? { since: now(), failures: 0, knownUntil: 0 };
    if (now() - found.since >= MINUTE_MS) {
      found.since = now();
      found.failures = 0;
    }
    // The order of a Map is that of insertion: who was heard of last stands last.
    visitors.delete(key);
    visitors.set(key, found);
    if (visitors.size > mostAddresses) visitors.delete(visitors.keys().next().value ?? key);
    return found;
  }

  return {
    waitMs(address) {
      const found = visitors.get(neighbourhood(address));
      if (found === undefined || found.failures < perMinute || now() < found.knownUntil) return 0;
      return Math.max(found.since + MINUTE_MS - now(), 0);
    },
    failed(address) {
      visitor(address).failures++;
    },
    succeeded(address) {
      visitor(address).knownUntil = now() + KNOWN_MS;
    },
  };
}

/** One host of IPv6 usually has a whole /64 to itself. */
function neighbourhood(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = "", tail = ""] = address.split("%", 1)[0]!.toLowerCase().split("::");
  const groups = (text: string) => (text === "" ? [] : text.split(":"));
  const missing = Math.max(8 - groups(head).length - groups(tail).length, 0);
  const all = [...groups(head), ...Array<string>(address.includes("::") ? missing : 0).fill("0"), ...groups(tail)];
  return all
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}
