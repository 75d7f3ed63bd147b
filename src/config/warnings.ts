/** Limits of a valid configuration that can never be met, or never be used. */
import { type CostProfile, countsRequests, payableBytes, price } from "../core/cost.js";
import { appLimits, limitRules } from "./options/limiter.js";
import { routeProfiles } from "./options/profiles.js";
import { quoted } from "./problem.js";
import type { Config } from "./schema.js";

export interface Warning {
  /** The option. */
  path: string;
  reason: string;
}

/** What is priced: all apps, or one route. */
interface Prices {
  /** " on the route /upload", or nothing. */
  where: string;
  profile: CostProfile;
}

export function configWarnings(config: Config): Warning[] {
  const { cluster, request_limits } = config;
  const onRoutes = [...routeProfiles(config)].map(([route, profile]) => ({ where: ` on the route ${route}`, profile }));
  const apps = appLimits(config);
  const warnings = apps.flatMap(({ id, guaranteed, burst, profile }): Warning[] => {
    const all: Prices[] = [{ where: "", profile }, ...onRoutes];
    return [
      ...expensiveMethods(all, burst).map((reason) => ({ path: `apps.${id}.burst`, reason })),
      ...longBodies(all, burst, request_limits.body_bytes).map((reason) => ({ path: `apps.${id}.burst`, reason })),
      ...(guaranteed > cluster.rate
        ? [{ path: `apps.${id}.guaranteed`, reason: `is above cluster.rate, ${cluster.rate}, which all apps share` }]
        : []),
      ...(burst > cluster.capacity
        ? [{ path: `apps.${id}.burst`, reason: `is above cluster.capacity, ${cluster.capacity}, which all apps share` }]
        : []),
    ];
  });
  const sum = apps.reduce((all, { guaranteed }) => all + guaranteed, 0);
  if (sum > cluster.rate) {
    const reason = `the guaranteed rates of all apps sum to ${sum}, above cluster.rate, ${cluster.rate}: when all are used, apps take from each other`;
    warnings.push({ path: "cluster.rate", reason });
  }
  const priced = [...new Set(apps.map(({ profile }) => profile))].map((profile) => ({ where: "", profile }));
  limitRules(config).rules.forEach(({ name, countsCost, limits: { burst } }, i) => {
    if (!countsCost) return;
    const reasons = new Set(expensiveMethods([...priced, ...onRoutes], burst));
    for (const reason of reasons) warnings.push({ path: `limits[${i}] ${name}`, reason });
  });
  return [...warnings, ...patternWarnings(config)];
}

/** Characters that mean something in a regular expression and are rare in paths; a $ only at the end. */
const REGULAR_EXPRESSION = /[\^()[\]|+\\{}]|\.\*|\$$/;

/** Paths that look like regular expressions: only `*` is special. */
export function patternWarnings({ limits }: Pick<Config, "limits">): Warning[] {
  return limits.flatMap(({ match }, i) =>
    match.path.flatMap((path, j) => {
      const found = REGULAR_EXPRESSION.exec(path)?.[0];
      if (found === undefined) return [];
      const literal = found === ".*" ? "the dot in .*" : found;
      const reason = `${quoted(path)} looks like a regular expression, but ${literal} is matched literally; only * stands for any characters`;
      return [{ path: `limits[${i}].match.path[${j}]`, reason }];
    }),
  );
}

/** Methods whose base cost is above the burst: all such requests are refused. */
function expensiveMethods(all: Prices[], burst: number): string[] {
  return all.flatMap(({ where, profile }) => {
    const methods = Object.keys(profile.base).filter((method) => price(profile, method, 0) > burst);
    if (methods.length === 0) return [];
    const highest = Math.max(...methods.map((method) => price(profile, method, 0)));
    const names = methods.map((method) => (method === "other" ? "other methods" : method)).join(", ");
    return [`a burst of ${burst} can never pay for ${names}${where}, which cost up to ${highest} before any byte`];
  });
}

/** Bodies that `request_limits.body_bytes` allows, but that the burst cannot pay for. */
function longBodies(all: Prices[], burst: number, bodyBytes: number): string[] {
  if (bodyBytes === Number.MAX_SAFE_INTEGER) return [];
  return all.flatMap(({ where, profile }) => {
    // A burst below the base cost is reported by itself.
    if (!countsRequests(profile) || price(profile, "PUT", 0) > burst) return [];
    const most = payableBytes(profile, "PUT", burst);
    if (price(profile, "PUT", bodyBytes) <= burst) return [];
    return [
      `a burst of ${burst} pays for a PUT of ${most} bytes${where}, but request_limits.body_bytes is ${bodyBytes}`,
    ];
  });
}
