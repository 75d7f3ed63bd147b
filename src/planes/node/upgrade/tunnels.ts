/** All tunnels, from taking the slot to releasing it. */
import type { Upstream } from "../upstream/upstream.js";
import type { Tunnel } from "./tunnel.js";

export interface Tunnels {
  readonly all: Set<Tunnel>;
  /** Notifies tunnels to pods that are in none of these upstreams. */
  follow(upstreams: Iterable<Upstream>): void;
  /** Tunnels that are established; the others are still counted as HTTP connections. */
  open(): number;
  /** Resolves when there are none. */
  empty(): Promise<void>;
}

export function createTunnels(): Tunnels {
  const waiting: (() => void)[] = [];
  const all = new NotifyingSet<Tunnel>(() => {
    for (const resolve of waiting.splice(0)) resolve();
  });
  return {
    all,
    follow(upstreams) {
      const pods = new Set([...upstreams].flatMap(({ targets }) => targets.map(({ origin }) => origin)));
      for (const tunnel of all) {
        if (!pods.has(tunnel.target.origin)) tunnel.podDeparted();
      }
    },
    open: () => [...all].filter((tunnel) => tunnel.isOpen).length,
    empty: () =>
      new Promise((resolve) => {
        if (all.size === 0) resolve();
        else waiting.push(resolve);
      }),
  };
}

/** Calls `onEmpty` when the last member is deleted. */
class NotifyingSet<T> extends Set<T> {
  constructor(private readonly onEmpty: () => void) {
    super();
  }

  override delete(member: T): boolean {
    const deleted = super.delete(member);
    if (deleted && this.size === 0) this.onEmpty();
    return deleted;
  }
}
