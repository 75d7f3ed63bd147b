/** The connections of this process, in the order in which their leases are to be renewed, and how many there are where. */
import type { RouteLimits } from "./limits.js";

export interface Held {
  readonly connection: string;
  readonly pod: string;
  readonly app: string;
  readonly route: string;
  /** Under which it was let in. */
  readonly limits: RouteLimits;
  /** Has a lease, as far as is known here. */
  leased: boolean;
  /** The store may know of it: a release must be sent. */
  told: boolean;
  /** Over: released, or closed for want of room. */
  ended: boolean;
  /** Closed for want of room, and whoever must hear of that. */
  lost: boolean;
  lostHandler: (() => void) | undefined;
}

export type HeldSlots = ReturnType<typeof createHeldSlots>;

export function createHeldSlots() {
  // A Map remembers the order of insertion; who was renewed goes to the end.
  const all = new Map<string, Held>();
  const onPod = new Map<string, number>();
  const ofApp = new Map<string, number>();

  return {
    size: () => all.size,
    onPod: (pod: string) => onPod.get(pod) ?? 0,
    ofApp: (app: string) => ofApp.get(app) ?? 0,
    pods: (): ReadonlyMap<string, number> => onPod,
    all: (): Held[] => [...all.values()],

    add(held: Held): void {
      all.set(held.connection, held);
      count(onPod, held.pod, 1);
      count(ofApp, held.app, 1);
    },

    /** False when it was not there any more. */
    remove(held: Held): boolean {
      if (!all.delete(held.connection)) return false;
      count(onPod, held.pod, -1);
      count(ofApp, held.app, -1);
      return true;
    },

    /** Those whose turn it is; their next turn comes after that of all others. */
    next(most: number): Held[] {
      const some: Held[] = [];
      for (const held of all.values()) {
        if (some.length === most) break;
        some.push(held);
      }
      for (const held of some) {
        all.delete(held.connection);
        all.set(held.connection, held);
      }
      return some;
    },
  };
}

function count(counts: Map<string, number>, name: string, by: number): void {
  const sum = (counts.get(name) ?? 0) + by;
  if (sum === 0) counts.delete(name);
  else counts.set(name, sum);
}
