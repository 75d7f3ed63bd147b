/** Validates relations between sections of the configuration. */
import { DEFAULT_APP } from "../core/identity.js";
import { DESCRIPTOR_PREFIX, VALUE_PREFIX } from "../core/keys.js";
import { LIMITS_DOMAIN } from "../limiter/descriptors/attribute-limits.js";
import { APPS_DOMAIN } from "../limiter/descriptors/limit-requests.js";
import { checkCredentials } from "./credentials.js";
import { checkLimits } from "./limit-relations.js";
import { didYouMean, knownNames } from "./nearest.js";
import { type Path, type PlacedProblem, problemAt } from "./problem.js";
import type { Config } from "./schema.js";
import type { DescriptorConfig } from "./sections/rate-limits.js";

/** Sections with errors of their own are missing in `config`. */
export function relationProblems(config: Partial<Config>, raw: unknown): PlacedProblem[] {
  const problems: PlacedProblem[] = [];
  const complain = (path: Path, reason: string) => problems.push(problemAt(path, raw, reason));
  const { routes, upstreams, envoy, identity, apps, rate_limits, store, store_tls } = config;
  if (routes !== undefined) checkRoutes(routes, upstreams, complain);
  checkCredentials(config, complain);
  if (store_tls !== undefined && store !== undefined && !/^rediss/i.test(store)) {
    complain(["store_tls"], "requires a rediss:// URL in store");
  }
  if (envoy !== undefined && envoy.max_buffered_bytes < envoy.max_message_bytes * 1.25) {
    complain(["envoy", "max_buffered_bytes"], "must be at least 1.25 times max_message_bytes");
  }
  if (identity !== undefined && apps !== undefined) {
    checkApiKeys(identity.api_keys, apps, complain);
    for (const [host, app] of Object.entries(identity.hosts)) {
      if (app === DEFAULT_APP || Object.hasOwn(apps, app)) continue;
      complain(["identity", "hosts", host], `is not one of apps${didYouMean(app, Object.keys(apps))}`);
    }
  }
  if (rate_limits !== undefined) checkRateLimits(rate_limits, complain);
  for (const app of Object.keys(apps ?? {})) {
    for (const prefix of [DESCRIPTOR_PREFIX, VALUE_PREFIX]) {
      if (app.startsWith(prefix)) complain(["apps", app], `must not begin with ${prefix}`);
    }
  }
  checkLimits(config, complain);
  return problems;
}

export type Complain = (path: Path, reason: string) => void;

function checkRoutes(routes: Config["routes"], upstreams: Config["upstreams"] | undefined, complain: Complain): void {
  const seen = new Map<string, number>();
  routes.forEach(({ path, host = "", upstream }, i) => {
    const name = `${host.toLowerCase()} ${path}`;
    const before = seen.get(name);
    if (before !== undefined) complain(["routes", i, "path"], `routes[${before}] has the same host and path`);
    seen.set(name, i);
    if (upstreams === undefined || Object.hasOwn(upstreams, upstream)) return;
    complain(["routes", i, "upstream"], `is not one of upstreams${knownNames(upstream, Object.keys(upstreams))}`);
  });
}

function checkApiKeys(apiKeys: Config["identity"]["api_keys"], apps: Config["apps"], complain: Complain): void {
  const owners = new Map<string, string>();
  for (const [app, keys] of Object.entries(apiKeys)) {
    const path = ["identity", "api_keys", app];
    if (app !== DEFAULT_APP && !Object.hasOwn(apps, app)) {
      complain(path, `is not one of apps${didYouMean(app, Object.keys(apps))}`);
    }
    keys.forEach((key, i) => {
      const owner = owners.get(key);
      if (key === "") complain([...path, i], "must not be empty");
      else if (owner !== undefined) complain([...path, i], `is also a key of ${owner}`);
      owners.set(key, app);
    });
  }
}

function checkRateLimits(domains: Config["rate_limits"], complain: Complain): void {
  const seen = new Map<string, number>();
  domains.forEach(({ domain, descriptors }, i) => {
    const before = seen.get(domain);
    if (before !== undefined) complain(["rate_limits", i, "domain"], `rate_limits[${before}] has the same domain`);
    seen.set(domain, i);
    if (domain === LIMITS_DOMAIN) complain(["rate_limits", i, "domain"], "is reserved for limits; choose another one");
    if (domain === APPS_DOMAIN) complain(["rate_limits", i, "domain"], "is reserved for the apps; choose another one");
    checkDescriptors(descriptors, ["rate_limits", i, "descriptors"], complain);
  });
}

function checkDescriptors(descriptors: readonly DescriptorConfig[], path: Path, complain: Complain): void {
  const seen = new Map<string, number>();
  descriptors.forEach(({ key, value, share_threshold, descriptors: nested = [] }, i) => {
    const name = JSON.stringify([key, value]);
    const before = seen.get(name);
    if (before !== undefined) {
      complain(
        [...path, i, value === undefined ? "key" : "value"],
        `entry ${before} of the same list has the same key and value`,
      );
    }
    seen.set(name, i);
    if (share_threshold && !value?.includes("*")) {
      complain([...path, i, "share_threshold"], "requires a value that contains *");
    }
    checkDescriptors(nested, [...path, i, "descriptors"], complain);
  });
}
