/** Finds the route of a request: host first, then the longest prefix. */
import type { Route } from "../../../config/options/proxy.js";
import { hostName } from "../../../core/host.js";
import { canonicalPath, withSlashes } from "../../../core/path.js";
import { coversPath } from "../../../limit-rules/pattern.js";

interface Entry<T> {
  path: string;
  value: T;
}

export function createRouteTable<T>(routes: Route[], leadsTo: (route: Route) => T) {
  /** Undefined: any host. */
  const byHost = new Map<string | undefined, Entry<T>[]>([[undefined, []]]);
  for (const route of routes) {
    if (!route.path.startsWith("/")) throw new Error(`the path of a route must begin with a slash: "${route.path}"`);
    const host = route.host === undefined ? undefined : hostName(route.host);
    byHost.set(host, [...(byHost.get(host) ?? []), { path: canonicalPath(route.path), value: leadsTo(route) }]);
  }
  for (const entries of byHost.values()) entries.sort((a, b) => b.path.length - a.path.length);

  function match(host: string, path: string): T | undefined {
    const found = byHost.size > 1 ? longest(byHost.get(hostName(host)), path) : undefined;
    return found ?? longest(byHost.get(undefined), path);
  }

  return {
    /** `host` as in the Host header, `path` in its canonical form. Undefined if there is no route. */
    find(host: string, path: string): T | undefined {
      const found = match(host, path);
      if (found === undefined || !path.includes("%")) return found;
      // Backends may or may not decode slashes, so both paths must have the same route.
      const slashed = withSlashes(path);
      return slashed === path || match(host, canonicalPath(slashed)) === found ? found : undefined;
    },
  };
}

function longest<T>(entries: Entry<T>[] | undefined, path: string): T | undefined {
  for (const entry of entries ?? []) if (coversPath(entry.path, path)) return entry.value;
  return undefined;
}
