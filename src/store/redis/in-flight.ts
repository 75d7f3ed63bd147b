/** Counts calls per server until their reply has arrived or the connection is lost, and limits them. */

export interface InFlight {
  /** False when the server is at its limit; otherwise the caller must call `leave` in the end. */
  enter(server: string): boolean;
  leave(server: string): void;
  total(): number;
  /** Resolves when no calls are in flight, at the latest after `withinMs`. */
  idle(withinMs: number): Promise<void>;
}

/** Per server, so that one stopped node of a cluster does not block calls to the others. */
export function createInFlight(maxPerServer: number): InFlight {
  const counts = new Map<string, number>();
  let total = 0;
  let onIdle: (() => void)[] = [];

  return {
    enter(server) {
      const count = counts.get(server) ?? 0;
      if (count >= maxPerServer) return false;
      counts.set(server, count + 1);
      total++;
      return true;
    },
    leave(server) {
      const count = (counts.get(server) ?? 0) - 1;
      if (count > 0) counts.set(server, count);
      else counts.delete(server);
      total--;
      if (total > 0) return;
      for (const wake of onIdle) wake();
      onIdle = [];
    },
    total: () => total,
    idle(withinMs) {
      if (total === 0) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, withinMs);
        onIdle.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    },
  };
}
