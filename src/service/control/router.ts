/** Finds the endpoint for a method and a path. */
import type { Endpoint } from "../operations/endpoint.js";

interface Route {
  pattern: RegExp;
  methods: Map<string, Endpoint>;
}

/** Throws if two endpoints have the same method and path. */
export function createRouter(endpoints: readonly Endpoint[]) {
  const routes = new Map<string, Route>();
  for (const endpoint of endpoints) {
    const shape = endpoint.path.replace(/\{[^}]*\}/g, "{}");
    const pattern = new RegExp(`^${endpoint.path.replace(/[.]/g, "\\.").replace(/\{(\w+)\}/g, "(?<$1>[^/]+)")}$`);
    const { methods }: Route = routes.get(shape) ?? { pattern, methods: new Map() };
    routes.set(shape, { pattern, methods });
    if (methods.has(endpoint.method)) throw new Error(`${endpoint.method} ${endpoint.path} is defined twice`);
    methods.set(endpoint.method, endpoint);
    if (endpoint.method === "GET") methods.set("HEAD", endpoint);
  }
  // Literal paths take precedence over named segments.
  const named = (shape: string) => shape.split("{").length;
  const ordered = [...routes].sort(([a], [b]) => named(a) - named(b)).map(([, route]) => route);

  /** Undefined if the path is unknown. Without an endpoint only the methods in `allow` are known. */
  return (method: string, path: string) => {
    for (const { pattern, methods } of ordered) {
      const match = pattern.exec(path);
      const params = match === null ? undefined : decoded(match.groups ?? {});
      if (params !== undefined) return { endpoint: methods.get(method), params, allow: [...methods.keys()] };
    }
    return undefined;
  };
}

function decoded(params: Record<string, string>): Record<string, string> | undefined {
  try {
    return Object.fromEntries(Object.entries(params).map(([name, text]) => [name, decodeURIComponent(text)]));
  } catch {
    return undefined;
  }
}
