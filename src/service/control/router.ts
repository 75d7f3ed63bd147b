/** Finds the endpoint for a method and a path. */
import type { Endpoint, Method } from "./endpoint.js";

export type Found =
  | { endpoint: Endpoint; params: Record<string, string> }
  /** The path is known, the method is not: the allowed methods. */
  | { allow: string[] }
  | undefined;

interface Route {
  parts: string[];
  methods: Map<Method, Endpoint>;
}

export interface Router {
  find(method: string, path: string): Found;
}

/** Throws if two endpoints have the same method and path. */
export function createRouter(endpoints: readonly Endpoint[]): Router {
  const routes = new Map<string, Route>();
  for (const endpoint of endpoints) {
    const shape = endpoint.path.replace(/\{[^}]*\}/g, "{}");
    const route = routes.get(shape) ?? { parts: endpoint.path.split("/"), methods: new Map() };
    if (route.methods.has(endpoint.method)) throw new Error(`${endpoint.method} ${endpoint.path} is defined twice`);
    routes.set(shape, { ...route, methods: route.methods.set(endpoint.method, endpoint) });
  }
  // Literal paths take precedence over named segments.
  const ordered = [...routes.values()].sort((a, b) => namedParts(a) - namedParts(b));

  return {
    find(method, path) {
      const given = path.split("/");
      for (const { parts, methods } of ordered) {
        const params = match(parts, given);
        if (params === undefined) continue;
        const endpoint = methods.get((method === "HEAD" ? "GET" : method) as Method);
        if (endpoint !== undefined) return { endpoint, params };
        return { allow: [...methods.keys()].flatMap((name) => (name === "GET" ? ["GET", "HEAD"] : [name])) };
      }
      return undefined;
    },
  };
}

const isNamed = (part: string) => part.startsWith("{");
const namedParts = ({ parts }: Route) => parts.filter(isNamed).length;

function match(parts: string[], given: string[]): Record<string, string> | undefined {
  if (parts.length !== given.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, part] of parts.entries()) {
    const text = given[i] ?? "";
    if (!isNamed(part)) {
      if (part !== text) return undefined;
      continue;
    }
    const value = decoded(text);
    if (value === undefined || value === "") return undefined;
    params[part.slice(1, -1)] = value;
  }
  return params;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
