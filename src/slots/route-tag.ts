/**
 * The hash tag of a route's connection keys. Each route of a cluster has its own: on Redis Cluster routes are spread over
 * the primaries, and all limits of one route are applied in one call. Clusters and routes that share a Redis share nothing.
 */

/** A cluster id has no slash, and a tag ends with the first closing brace. */
export function routeTag(cluster: string, route: string): string {
  return `${cluster}/${route.replace(/[%}]/g, (char) => (char === "%" ? "%25" : "%7D"))}`;
}
