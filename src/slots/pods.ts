/**
 * Finds the pods of an upstream by DNS, at an interval, as a headless service needs it. If a lookup fails or returns no
 * address, the last result stays in force.
 */
import { lookup } from "node:dns/promises";
import { isIPv6 } from "node:net";
import { type Clock, systemClock } from "../shared/clock.js";

export interface PodSource {
  name: string;
  port: number;
  intervalMs: number;
}

export interface PodChange {
  upstream: string;
  /** All pods, `host:port`, sorted. */
  pods: string[];
  came: string[];
  left: string[];
}

export interface PodDirectoryOptions {
  /** By upstream. */
  sources: Record<string, PodSource>;
  /** Returns the addresses of a name. Default: the system resolver. */
  resolve?: (name: string) => Promise<string[]>;
  clock?: Clock;
  /** From 0 to 1, so that processes do not look up names simultaneously. */
  random?: () => number;
  /** A lookup failed. Must not throw. */
  failed?(upstream: string, error: unknown): void;
}

export interface PodDirectory {
  /** Undefined before the first successful lookup, and for an unknown upstream. */
  pods(upstream: string): string[] | undefined;
  /** Called when the pods of an upstream have changed, and for the first result. Must not throw. */
  onChange(handler: (change: PodChange) => void): () => void;
  /** Looks up all names; resolves when each has succeeded or failed. */
  look(): Promise<void>;
  /** Unchanged sources keep their pods. */
  reconfigure(sources: Record<string, PodSource>): void;
  close(): void;
}

interface Watched {
  source: PodSource;
  pods: string[] | undefined;
  looking: Promise<void> | undefined;
  stopTimer(): void;
}

export function createPodDirectory(options: PodDirectoryOptions): PodDirectory {
  const { resolve = systemAddresses, clock = systemClock, random = Math.random } = options;
  const watched = new Map<string, Watched>();
  const handlers = new Set<(change: PodChange) => void>();
  let closed = false;

  function watch(upstream: string, source: PodSource): void {
    const one: Watched = { source, pods: undefined, looking: undefined, stopTimer: () => {} };
    watched.set(upstream, one);
    one.stopTimer = clock.after(0, () => void look(upstream, one));
  }

  function look(upstream: string, one: Watched): Promise<void> {
    one.looking ??= lookOnce(upstream, one).finally(() => {
      one.looking = undefined;
      if (closed || watched.get(upstream) !== one) return;
      one.stopTimer();
      one.stopTimer = clock.after(one.source.intervalMs * (0.9 + random() / 5), () => void look(upstream, one));
    });
    return one.looking;
  }

  async function lookOnce(upstream: string, one: Watched): Promise<void> {
    try {
      const addresses = await resolve(one.source.name);
      // The source may have been reconfigured meanwhile.
      if (addresses.length > 0 && !closed && watched.get(upstream) === one) found(upstream, one, addresses);
    } catch (error) {
      options.failed?.(upstream, error);
    }
  }

  function found(upstream: string, one: Watched, addresses: string[]): void {
    const { port } = one.source;
    const pods = [...new Set(addresses.map((address) => podOf(address, port)))].sort();
    const before = one.pods ?? [];
    const came = pods.filter((pod) => !before.includes(pod));
    const left = before.filter((pod) => !pods.includes(pod));
    if (one.pods !== undefined && came.length === 0 && left.length === 0) return;
    one.pods = pods;
    const change = { upstream, pods: [...pods], came, left };
    for (const handler of [...handlers]) handler(change);
  }

  function reconfigure(sources: Record<string, PodSource>): void {
    for (const [upstream, one] of [...watched]) {
      const next = sources[upstream];
      if (next !== undefined && next.name === one.source.name && next.port === one.source.port) {
        one.source = next;
        continue;
      }
      one.stopTimer();
      watched.delete(upstream);
    }
    for (const [upstream, source] of Object.entries(sources)) if (!watched.has(upstream)) watch(upstream, source);
  }

  reconfigure(options.sources);
  return {
    pods: (upstream) => watched.get(upstream)?.pods,
    onChange(handler) {
      handlers.add(handler);
      return () => handlers.delete(handler);
    },
    async look() {
      await Promise.all([...watched].map(([upstream, one]) => look(upstream, one)));
    },
    reconfigure,
    close() {
      closed = true;
      for (const one of watched.values()) one.stopTimer();
    },
  };
}

function podOf(address: string, port: number): string {
  return isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`;
}

async function systemAddresses(name: string): Promise<string[]> {
  return (await lookup(name, { all: true, verbatim: true })).map(({ address }) => address);
}
