/**
 * What this process has paid for requests of each data plane, per app. A plane reports itself what an exchange has cost less
 * than it paid: it gets back at most what was paid for it here, and once.
 */
import type { Limiter } from "../limiter/limiter.js";

export type PaidForPlanes = ReturnType<typeof createPaidForPlanes>;

/** Planes and apps are configured, so the number of entries is bounded. */
export function createPaidForPlanes(limitsOf: Limiter["limitsOf"]) {
  const paid = new Map<string, number>();
  // Neither name contains a space.
  const keyOf = (plane: string, app: string) => `${plane} ${app}`;

  return {
    /** `plane`: empty for those that share the common token. */
    add(plane: string, app: string, tokens: number): void {
      const { burst = 0 } = limitsOf(app) ?? {};
      const key = keyOf(plane, app);
      // A bucket holds no more, so older payments have been refilled.
      paid.set(key, Math.min((paid.get(key) ?? 0) + tokens, burst));
    },

    /** Returns how many of `tokens` may be given back. */
    takeBack(plane: string, app: string, tokens: number): number {
      const key = keyOf(plane, app);
      const known = paid.get(key) ?? 0;
      const returned = Math.min(tokens, known);
      if (returned < known) paid.set(key, known - returned);
      else paid.delete(key);
      return returned;
    },
  };
}
