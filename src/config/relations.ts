/** What no option can tell alone: whether the sections of a configuration fit each other. */
import { DEFAULT_APP } from "../core/identity.js";
import { LIMIT_PREFIX } from "../descriptors/rules.js";
import { nearest } from "./nearest.js";
import { type Path, type PlacedProblem, problemAt } from "./problem.js";
import { rateLimitsFit } from "./rate-limit-relations.js";
import type { Config } from "./schema.js";

/** Looks at the sections that are right in themselves; a section with a mistake of its own is not there. */
export function relationProblems(config: Partial<Config>, raw: unknown): PlacedProblem[] {
  const problems: PlacedProblem[] = [];
  const complain = (path: Path, reason: string) => problems.push(problemAt(path, raw, reason));
  const { routes, upstreams, control, identity, apps, rate_limits } = config;
  if (routes !== undefined) routesLead(routes, upstreams, complain);
  if (control !== undefined && control.admin_token !== "" && control.admin_token === control.plane_token) {
    complain(["control", "plane_token"], "must differ from admin_token: data planes may not administer");
  }
  if (identity !== undefined && apps !== undefined) keysBelong(identity.api_keys, apps, complain);
  if (rate_limits !== undefined) rateLimitsFit(rate_limits, complain);
  for (const app of Object.keys(apps ?? {})) {
    if (app.startsWith(LIMIT_PREFIX)) complain(["apps", app], `must not begin with ${LIMIT_PREFIX}`);
  }
  return problems;
}

export type Complain = (path: Path, reason: string) => void;

function routesLead(routes: Config["routes"], upstreams: Config["upstreams"] | undefined, complain: Complain): void {
  const seen = new Map<string, number>();
  routes.forEach(({ path, host = "", upstream }, i) => {
    const name = `${host.toLowerCase()} ${path}`;
    const before = seen.get(name);
    if (before !== undefined) complain(["routes", i, "path"], `routes[${before}] has the same host and path`);
    seen.set(name, i);
    if (upstreams === undefined || Object.hasOwn(upstreams, upstream)) return;
    const likely = nearest(upstream, Object.keys(upstreams));
    complain(
      ["routes", i, "upstream"],
      `is none of upstreams${likely === undefined ? "" : `; did you mean ${likely}?`}`,
    );
  });
}

function keysBelong(apiKeys: Config["identity"]["api_keys"], apps: Config["apps"], complain: Complain): void {
  const owners = new Map<string, string>();
  for (const [app, keys] of Object.entries(apiKeys)) {
    const path = ["identity", "api_keys", app];
    if (app !== DEFAULT_APP && !Object.hasOwn(apps, app)) {
      const likely = nearest(app, Object.keys(apps));
      complain(path, `is none of apps${likely === undefined ? "" : `; did you mean ${likely}?`}`);
    }
    keys.forEach((key, i) => {
      const owner = owners.get(key);
      if (key === "") complain([...path, i], "must not be empty");
      else if (owner !== undefined) complain([...path, i], `${owner} has the same key`);
      owners.set(key, app);
    });
  }
}
