/** Finds the route of a request: host first, then the longest prefix. An ambiguous path has no route. */
import type { Route } from "../../../config/options/proxy.js";

interface Entry<T> {
  path: string;
  value: T;
}

export function createRouteTable<T>(routes: Route[], leadsTo: (route: Route) => T) {
  /** Undefined: any host. */
  const byHost = new Map<string | undefined, Entry<T>[]>([[undefined, []]]);
  for (const route of routes) {
    if (!route.path.startsWith("/")) throw new Error(`the path of a route must begin with a slash: "${route.path}"`);
    const host = route.host?.toLowerCase();
    byHost.set(host, [...(byHost.get(host) ?? []), { path: route.path, value: leadsTo(route) }]);
  }
  for (const entries of byHost.values()) entries.sort((a, b) => b.path.length - a.path.length);

  function match(host: string, path: string): T | undefined {
    const found = byHost.size > 1 ? longest(byHost.get(hostName(host)), path) : undefined;
    return found ?? longest(byHost.get(undefined), path);
  }

  return {
    /** `host` as in the Host header, `path` without the query. Undefined if there is no route or the path is ambiguous. */
    find(host: string, path: string): T | undefined {
      const found = match(host, path);
      // Backends may or may not resolve dot segments, so both paths must have the same route.
      if (found === undefined || !hasDots(path)) return found;
      return match(host, withoutDots(path)) === found ? found : undefined;
    },
  };
}

function longest<T>(entries: Entry<T>[] | undefined, path: string): T | undefined {
  for (const entry of entries ?? []) if (covers(entry.path, path)) return entry.value;
  return undefined;
}

function covers(prefix: string, path: string): boolean {
  if (!path.startsWith(prefix)) return false;
  return prefix.endsWith("/") || path.length === prefix.length || path.charCodeAt(prefix.length) === 47;
}

/** In lower case and without the port. An IPv6 address keeps its brackets. */
export function hostName(host: string): string {
  const end = host.startsWith("[") ? host.indexOf("]") + 1 : host.indexOf(":");
  return (end > 0 ? host.slice(0, end) : host).toLowerCase();
}

function hasDots(path: string): boolean {
  return path.includes("/.") || path.includes("%2");
}

function withoutDots(path: string): string {
  const kept: string[] = [];
  const segments = path.replace(/%2e/gi, ".").replace(/%2f/gi, "/").split("/");
  for (const segment of segments) {
    if (segment !== ".." && segment !== ".") kept.push(segment);
    else if (segment === ".." && kept.length > 1) kept.pop();
  }
  if (/^\.\.?$/.test(segments.at(-1)!)) kept.push("");
  return kept.join("/");
}
