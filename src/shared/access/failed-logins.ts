/** Limits token guessing: after several wrong tokens, an address is locked for a while. */
import { networkOf } from "../addresses.js";

interface Visitor {
  since: number;
  failures: number;
  /** The address has sent a valid token and is not locked until then. */
  trustedUntil: number;
}

/** Allowed wrong tokens per minute and address. */
const PER_MINUTE = 10;
const MINUTE_MS = 60_000;
/** How long an address with a valid token cannot be locked. */
const TRUSTED_MS = 60 * MINUTE_MS;

export interface FailedLoginsOptions {
  /** Monotonic milliseconds. */
  now(): number;
  /** Maximum number of tracked addresses; the least recently used one is dropped. */
  maxAddresses?: number;
}

/**
 * A locked address is rejected even with a valid token, because otherwise guessing could continue. An address that sent a
 * valid token within the last hour is never locked, so that data planes and operators can share it with a script that has
 * an old token. Guessing from such an address is therefore not limited.
 */
export function createFailedLogins({ now, maxAddresses = 1_000 }: FailedLoginsOptions) {
  const visitors = new Map<string, Visitor>();

  function visitor(address: string): Visitor {
    const key = networkOf(address);
    const found = visitors.get(key) ?? { since: now(), failures: 0, trustedUntil: 0 };
    if (now() - found.since >= MINUTE_MS) {
      found.since = now();
      found.failures = 0;
    }
    // A Map keeps the order of insertion, so the most recently used entry is last.
    visitors.delete(key);
    visitors.set(key, found);
    if (visitors.size > maxAddresses) visitors.delete(visitors.keys().next().value ?? key);
    return found;
  }

  return {
    /** How long the address is still locked; 0: not locked. */
    waitMs(address: string): number {
      const found = visitors.get(networkOf(address));
      if (found === undefined || found.failures < PER_MINUTE || now() < found.trustedUntil) return 0;
      return Math.max(found.since + MINUTE_MS - now(), 0);
    },
    failed(address: string): void {
      visitor(address).failures++;
    },
    /** The address sent a valid token. */
    succeeded(address: string): void {
      visitor(address).trustedUntil = now() + TRUSTED_MS;
    },
  };
}
