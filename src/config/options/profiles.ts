/** Maps the profiles of apps and routes to prices. */
import { type CostProfile, costProfiles } from "../../core/cost.js";
import { canonicalPath } from "../../core/path.js";
import { routeOf } from "../../limit-rules/limit-rules.js";
import { inOrder } from "../../limiter/limits/limit-options.js";
import type { AppConfig, Config } from "../schema.js";
import { namedRoute, routeName } from "./slots.js";

export function costProfile({
  based_on,
  base,
  quantum,
  bandwidth,
  bytes,
  max_cost,
}: AppConfig["profile"]): CostProfile {
  const named = costProfiles[based_on];
  const changed = Object.entries(base).filter(([, cost]) => cost !== undefined);
  return {
    base: { ...named.base, ...Object.fromEntries(changed) },
    quantum: quantum ?? named.quantum,
    bandwidth: bandwidth ?? named.bandwidth,
    maxCost: max_cost ?? named.maxCost,
    ...(bytes === "both" ? {} : { countedBytes: bytes }),
  };
}

/** The prices of a route; undefined if those of the apps apply. */
export function routeProfile(route: Config["routes"][number]): CostProfile | undefined {
  return route.profile === undefined ? undefined : { ...costProfile(route.profile), route: routeName(route) };
}

/** The prices of all routes that have their own, by the name of the route. */
export function routeProfiles({ routes }: Pick<Config, "routes">): Map<string, CostProfile> {
  return new Map(
    routes.flatMap((route) => {
      const profile = routeProfile(route);
      return profile === undefined ? [] : [[routeName(route), profile] as const];
    }),
  );
}

/** Finds the prices of a request's route; undefined if those of its app apply. For commands: planes know the route. */
export function routePricing(config: Pick<Config, "routes">) {
  const profiles = routeProfiles(config);
  const routes = inOrder(config.routes.map(namedRoute));
  return (host: string, path: string): CostProfile | undefined =>
    profiles.size === 0 ? undefined : profiles.get(routeOf(routes, host, canonicalPath(path)));
}
