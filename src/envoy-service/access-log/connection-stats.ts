/** Counts the connections that Envoys hold, per route and pod and per Envoy, from log entries: for metrics only. */
import type { Clock } from "../../shared/clock.js";

/** Bounds the memory. The store counts all connections. */
const MAX_CONNECTIONS = 200_000;

export function createConnectionStats(clock: Clock, leaseMs: (route: string) => number) {
  /** Ordered by `seenAt`. */
  const connections = new Map<string, { pod: string; route: string; node: string; seenAt: number }>();

  /**
   * Removes connections that are no longer reported here: their Envoy has died, or reports to another service. Where leases
   * differ between routes, a connection with a short one may be counted for as long as the longest.
   */
  function removeExpired(): void {
    for (const [key, { seenAt, route }] of connections) {
      if (seenAt >= clock.now() - leaseMs(route)) return;
      connections.delete(key);
    }
  }

  return {
    seen(key: string, { pod, route }: { pod: string; route: string }, node: string): void {
      connections.delete(key);
      removeExpired();
      if (connections.size < MAX_CONNECTIONS) connections.set(key, { pod, route, node, seenAt: clock.now() });
    },
    ended(key: string): void {
      connections.delete(key);
    },
    stats() {
      removeExpired();
      const pods = new Map<string, { route: string; pod: string; active: number }>();
      const nodes = new Map<string, number>();
      for (const { pod, route, node } of connections.values()) {
        const key = `${route} ${pod}`;
        pods.set(key, { route, pod, active: (pods.get(key)?.active ?? 0) + 1 });
        nodes.set(node, (nodes.get(node) ?? 0) + 1);
      }
      return { pods: [...pods.values()], nodes };
    },
  };
}
