/** All connections that have left HTTP, from the moment they have a slot until it is free. */

import type { Upstream } from "../upstream/upstream.js";
import type { Tunnel } from "./tunnel.js";

export interface Tunnels {
  readonly all: Set<Tunnel>;
  /** These are the upstreams in force: pods that are on none of them have departed. */
  follow(upstreams: Iterable<Upstream>): void;
  /** Those that are open: the others have a slot, but are still called connections of HTTP. */
  open(): number;
  /** Resolves when there is none, now or later. */
  empty(): Promise<void>;
}

export function createTunnels(): Tunnels {
  const waiting: (() => void)[] = [];
  const all = new NoticingSet<Tunnel>(() => {
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

/** Says when its last member has left. */
class NoticingSet<T> extends Set<T> {
  constructor(private readonly onEmpty: () => void) {
    super();
  }

  override delete(member: T): boolean {
    const deleted = super.delete(member);
    if (deleted && this.size === 0) this.onEmpty();
    return deleted;
  }
}
