/** Counts the connections that Envoys hold, per pod and per Envoy, from their log entries: for metrics only. */
import type { Clock } from "../../shared/clock.js";

/** Bounds the memory. The store counts all connections. */
const MAX_CONNECTIONS = 200_000;

export function createConnectionStats(clock: Clock, leaseMs: () => number) {
  /** Ordered by `seenAt`. */
  const connections = new Map<string, { pod: string; node: string; seenAt: number }>();

  /** Removes connections that are no longer reported here: their Envoy has died, or reports to another service. */
  function removeExpired(): void {
    const oldest = clock.now() - leaseMs();
    for (const [key, { seenAt }] of connections) {
      if (seenAt >= oldest) return;
      connections.delete(key);
    }
  }

  return {
    seen(key: string, pod: string, node: string): void {
      connections.delete(key);
      removeExpired();
      if (connections.size < MAX_CONNECTIONS) connections.set(key, { pod, node, seenAt: clock.now() });
    },
    ended(key: string): void {
      connections.delete(key);
    },
    stats() {
      removeExpired();
      const pods = new Map<string, number>();
      const nodes = new Map<string, number>();
      for (const { pod, node } of connections.values()) {
        pods.set(pod, (pods.get(pod) ?? 0) + 1);
        nodes.set(node, (nodes.get(node) ?? 0) + 1);
      }
      return { pods, nodes };
    },
  };
}
