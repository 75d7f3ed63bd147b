/** Bounds the values of limits that one data plane uses: a faulty or hostile one must fill neither the store nor this process. */
import { limitOfBucket, overflowId } from "../../descriptors/limit-rules.js";
import type { Clock } from "../../shared/clock.js";

export interface PlaneValuesOptions {
  /** Values that a worker of a data plane remembers at a time. */
  maxValues(): number;
  clock: Clock;
  /** Called once per period in which a data plane uses too many. */
  exceeded(plane: string, most: number): void;
}

/** For the log. */
export const TOO_MANY_VALUES =
  "a data plane uses too many values of limits: further ones share a bucket or get no tokens";

/** A data plane may have several workers, and their values change. */
const PER_MAX_VALUES = 10;
const PERIOD_MS = 60_000;

interface Used {
  since: number;
  /** Hashes of the buckets: clients choose long names. */
  buckets: Set<number>;
  isExceeded: boolean;
}

export type PlaneValues = ReturnType<typeof createPlaneValues>;

export function createPlaneValues({ maxValues, clock, exceeded }: PlaneValuesOptions) {
  /** The names are configured, so their number is bounded. */
  const planes = new Map<string, Used>();

  function usedBy(plane: string): Used {
    const now = clock.now();
    const known = planes.get(plane);
    if (known !== undefined && now - known.since < PERIOD_MS) return known;
    const used = { since: now, buckets: new Set<number>(), isExceeded: false };
    planes.set(plane, used);
    return used;
  }

  return {
    /**
     * Whether the data plane may use this bucket. False for a value, if it has used too many others in this period. Planes that
     * share the common token have no name, and are not bounded: they cannot be told apart.
     */
    admits(plane: string, id: string): boolean {
      const limit = plane === "" ? "" : limitOfBucket(id);
      if (limit === "" || id === overflowId(limit)) return true;
      const used = usedBy(plane);
      const hash = hashOf(id);
      if (used.buckets.has(hash)) return true;
      const most = maxValues() * PER_MAX_VALUES;
      if (used.buckets.size < most) {
        used.buckets.add(hash);
        return true;
      }
      if (!used.isExceeded) exceeded(plane, most);
      used.isExceeded = true;
      return false;
    },
  };
}

/** FNV-1a, 32 bits. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
