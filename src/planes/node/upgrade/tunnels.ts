/** All tunnels of a proxy, from taking the slot to releasing it. */
import type { Upstream } from "../upstream/upstream.js";
import type { Tunnel } from "./tunnel.js";

export class Tunnels extends Set<Tunnel> {
  private waiting: (() => void)[] = [];

  override delete(tunnel: Tunnel): boolean {
    const deleted = super.delete(tunnel);
    if (this.size === 0) for (const resolve of this.waiting.splice(0)) resolve();
    return deleted;
  }

  /** Resolves when there are none. */
  empty(): Promise<void> {
    return new Promise((resolve) => {
      if (this.size === 0) resolve();
      else this.waiting.push(resolve);
    });
  }

  /** Tunnels that are established; the others are still counted as HTTP connections. */
  open(): number {
    return [...this].filter((tunnel) => tunnel.isOpen).length;
  }

  /** Notifies tunnels to pods that are in none of these upstreams. */
  follow(upstreams: Iterable<Upstream>): void {
    const pods = new Set([...upstreams].flatMap(({ targets }) => targets.map(({ origin }) => origin)));
    for (const tunnel of this) if (!pods.has(tunnel.target.origin)) tunnel.podDeparted();
  }
}
