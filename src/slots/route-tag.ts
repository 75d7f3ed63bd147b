/**
 * The hash tag of a route's connection keys. Each route of a cluster has its own: on Redis Cluster routes are spread over
 * the primaries, and all limits of one route are applied in one call. Clusters and routes that share a Redis share nothing.
 */
import { HASH_SLOTS, hashSlotOf } from "../shared/hash-slot.js";

/** Multiples of it, modulo 1, are spread evenly for any number of them. */
const GOLDEN_RATIO = (Math.sqrt(5) - 1) / 2;
/** A route is placed into one of this many equal parts of the slots. */
const PARTS = 256;

/**
 * A cluster id has no slash, and a tag ends with the first closing brace.
 *
 * A hash of the name leaves some primaries with twice as many routes as others. With a placement, a suffix puts the route
 * where the placement says: routes with the placements 0, 1, 2, … are spread evenly over primaries that own contiguous
 * ranges of equal size, whatever their number. `#` is not a character of a route.
 */
export function routeTag(cluster: string, route: string, placement?: number): string {
  const tag = `${cluster}/${route.replace(/[%}]/g, (char) => (char === "%" ? "%25" : "%7D"))}`;
  if (placement === undefined) return tag;
  const part = Math.floor(((placement * GOLDEN_RATIO) % 1) * PARTS);
  for (let suffix = 0; ; suffix++) {
    const placed = `${tag}#${suffix}`;
    if (Math.floor((hashSlotOf(placed) * PARTS) / HASH_SLOTS) === part) return placed;
  }
}
