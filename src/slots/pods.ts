/**
 * The pods behind a name: looked up again and again, as a headless service needs it. A name that cannot be looked up
 * changes nothing: the last answer stays in force. So does a name that has no addresses any more, which looks the same.
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
  /** All of them, `host:port`, in order. */
  pods: string[];
  came: string[];
  left: string[];
  /** Those among `came` whose address had been there before: they are other pods, with no connections. */
  again: string[];
}

export interface PodDirectoryOptions {
  /** By upstream. */
  sources: Record<string, PodSource>;
  /** The addresses of a name. Default: as the system looks names up, with its hosts file and search domains. */
  resolve?: (name: string) => Promise<string[]>;
  clock?: Clock;
  /** From 0 to 1, so that not all processes look at the same moment. */
  random?: () => number;
  /** A look-up failed. Must not throw. */
  failed?(upstream: string, error: unknown): void;
}

export interface PodDirectory {
  /** Undefined for an upstream that was never found, or is none of the sources. */
  pods(upstream: string): string[] | undefined;
  /** Called for each upstream whose pods are other ones than before; also for the first answer. Must not throw. */
  onChange(handler: (change: PodChange) => void): () => void;
  /** Looks all names up; ends when each was found or failed. */
  look(): Promise<void>;
  /** Sources that stay the same keep what was found. */
  reconfigure(sources: Record<string, PodSource>): void;
  close(): void;
}

interface Watched {
  source: PodSource;
  pods: string[] | undefined;
  looking: Promise<void> | undefined;
  stopTimer(): void;
}

/** Addresses that were there and left are remembered for the event; beyond so many, the oldest are not. */
const MOST_REMEMBERED = 10_000;

export function createPodDirectory(options: PodDirectoryOptions): PodDirectory {
  const { resolve = systemAddresses, clock = systemClock, random = Math.random } = options;
  const watched = new Map<string, Watched>();
  const handlers = new Set<(change: PodChange) => void>();
  const departed = new Set<string>();
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
      // Meanwhile it may have been told to look elsewhere.
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
    const again = came.filter((pod) => departed.delete(pod));
    for (const pod of left) remember(pod);
    const change = { upstream, pods: [...pods], came, left, again };
    for (const handler of [...handlers]) handler(change);
  }

  function remember(pod: string): void {
    departed.add(pod);
    if (departed.size <= MOST_REMEMBERED) return;
    for (const oldest of departed) {
      departed.delete(oldest);
      return;
    }
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
