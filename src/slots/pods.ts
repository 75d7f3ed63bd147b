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
  /** The pods of an upstream have changed; also for the first result. Must not throw. */
  changed?(change: PodChange): void;
  /** A lookup failed. Must not throw. */
  failed?(upstream: string, error: unknown): void;
}

interface Watched {
  source: PodSource;
  pods: string[] | undefined;
  stopTimer(): void;
}

export function createPodDirectory(options: PodDirectoryOptions) {
  const { resolve = systemAddresses, clock = systemClock } = options;
  const watched = new Map<string, Watched>();
  let closed = false;

  function lookAfter(ms: number, upstream: string, one: Watched): void {
    one.stopTimer = clock.after(ms, () => void look(upstream, one));
  }

  async function look(upstream: string, one: Watched): Promise<void> {
    const isWatched = () => !closed && watched.get(upstream) === one;
    try {
      const addresses = await resolve(one.source.name);
      // The source may have been reconfigured meanwhile.
      if (addresses.length > 0 && isWatched()) found(upstream, one, addresses);
    } catch (error) {
      options.failed?.(upstream, error);
    }
    // Processes must not look up names simultaneously.
    if (isWatched()) lookAfter(one.source.intervalMs * (0.9 + Math.random() / 5), upstream, one);
  }

  function found(upstream: string, one: Watched, addresses: string[]): void {
    const pods = [...new Set(addresses.map((address) => podOf(address, one.source.port)))].sort();
    const before = one.pods ?? [];
    const came = pods.filter((pod) => !before.includes(pod));
    const left = before.filter((pod) => !pods.includes(pod));
    if (came.length === 0 && left.length === 0) return;
    one.pods = pods;
    options.changed?.({ upstream, pods: [...pods], came, left });
  }

  /** Unchanged sources keep their pods. */
  function reconfigure(sources: Record<string, PodSource>): void {
    for (const [upstream, one] of watched) {
      const next = sources[upstream];
      if (next !== undefined && next.name === one.source.name && next.port === one.source.port) {
        one.source = next;
        continue;
      }
      one.stopTimer();
      watched.delete(upstream);
    }
    for (const [upstream, source] of Object.entries(sources)) {
      if (watched.has(upstream)) continue;
      const one: Watched = { source, pods: undefined, stopTimer: () => {} };
      watched.set(upstream, one);
      lookAfter(0, upstream, one);
    }
  }

  reconfigure(options.sources);
  return {
    /** Undefined before the first successful lookup, and for an unknown upstream. */
    pods: (upstream: string) => watched.get(upstream)?.pods,
    reconfigure,
    close(): void {
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
