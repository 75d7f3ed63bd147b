/** How many WebSockets the Envoys hold, by pod and by Envoy, as far as their entries tell: for the metrics. */
import type { Clock } from "../../shared/clock.js";

export type LiveSockets = ReturnType<typeof createLiveSockets>;

/** More are not counted here; the store counts them all. */
const MOST = 200_000;

interface Live {
  pod: string;
  node: string;
  seenAt: number;
}

export function createLiveSockets(clock: Clock, leaseMs: () => number) {
  // Whoever was seen last stands at the end.
  const all = new Map<string, Live>();

  /** Those whose Envoy has died, or tells another service of them now. */
  function forgetSilent(): void {
    const oldest = clock.now() - leaseMs();
    for (const [key, { seenAt }] of all) {
      if (seenAt >= oldest) return;
      all.delete(key);
    }
  }

  return {
    seen(key: string, pod: string, node: string): void {
      all.delete(key);
      forgetSilent();
      if (all.size < MOST) all.set(key, { pod, node, seenAt: clock.now() });
    },
    gone(key: string): void {
      all.delete(key);
    },
    numbers(): { pods: Map<string, number>; nodes: Map<string, number> } {
      forgetSilent();
      const pods = new Map<string, number>();
      const nodes = new Map<string, number>();
      for (const { pod, node } of all.values()) {
        pods.set(pod, (pods.get(pod) ?? 0) + 1);
        nodes.set(node, (nodes.get(node) ?? 0) + 1);
      }
      return { pods, nodes };
    },
  };
}
