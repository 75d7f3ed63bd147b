/** Finds the route of a request: host first, then the longest prefix. An ambiguous path has no route. */
import type { Route } from "../../../config/options/proxy.js";

export interface RouteTable<T> {
  /** `host` as in the Host header, `path` without the query. Undefined if there is no route or the path is ambiguous. */
  find(host: string, path: string): T | undefined;
}

interface Entry<T> {
  path: string;
  value: T;
}

export function createRouteTable<T>(routes: Route[], leadsTo: (route: Route) => T): RouteTable<T> {
  const anyHost: Entry<T>[] = [];
  const byHost = new Map<string, Entry<T>[]>();
  for (const route of routes) {
    if (!route.path.startsWith("/")) throw new Error(`the path of a route must begin with a slash: "${route.path}"`);
    const entry = { path: route.path, value: leadsTo(route) };
    if (route.host === undefined) {
      anyHost.push(entry);
      continue;
    }
    const host = route.host.toLowerCase();
    byHost.set(host, [...(byHost.get(host) ?? []), entry]);
  }
  for (const entries of [anyHost, ...byHost.values()]) entries.sort((a, b) => b.path.length - a.path.length);

  function match(host: string, path: string): T | undefined {
    if (byHost.size > 0) {
      const entries = byHost.get(hostName(host));
      const found = entries === undefined ? undefined : longest(entries, path);
      if (found !== undefined) return found;
    }
    return longest(anyHost, path);
  }

  return {
    find(host, path) {
      const found = match(host, path);
      // Backends may or may not resolve dot segments, so both paths must have the same route.
      if (found === undefined || !hasDots(path)) return found;
      return match(host, withoutDots(path)) === found ? found : undefined;
    },
  };
}

function longest<T>(entries: Entry<T>[], path: string): T | undefined {
  for (const entry of entries) if (covers(entry.path, path)) return entry.value;
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
  segments.forEach((segment, at) => {
    const last = at === segments.length - 1;
    if (segment === "..") {
      if (kept.length > 1) kept.pop();
      if (last) kept.push("");
    } else if (segment !== ".") {
      kept.push(segment);
    } else if (last) {
      kept.push("");
    }
  });
  return kept.join("/");
}
