/** The routes of a configuration that take WebSockets, as Envoy's script must know them. */
import type { Config } from "../../config/schema.js";
import type { SocketRoutes } from "../../planes/envoy/sockets/state.js";
import { connectionRoutes } from "../../slots/limits.js";

/** Of a route: what its limits, its metadata in Envoy and the service call it by. */
export function routeName({ host, path }: { host?: string | undefined; path: string }): string {
  return `${host ?? ""}${path}`;
}

export function socketRoutes({ routes, upstreams }: Config): SocketRoutes {
  const limits = connectionRoutes(routes);
  return Object.fromEntries(
    routes.flatMap((route) => {
      const { connections, upstream } = route;
      if (connections === undefined) return [];
      const { targets, passive } = upstreams[upstream]!;
      return [
        [
          routeName(route),
          {
            ...limits.get(routeName(route))!,
            protocols: connections.protocols.map((protocol) => protocol.toLowerCase()),
            pods: targets.map((target) => target.replace(/^https?:\/\//, "")),
            downMs: passive.down_ms,
          },
        ],
      ];
    }),
  );
}
