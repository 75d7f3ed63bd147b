/** Which pods are targets of a route: only these have slots for data planes. */

/** `possible`: targets come from DNS, and it may be one of them. */
export type PodStatus = "configured" | "possible" | "unknown";

export interface RouteTargets {
  /** `host:port` */
  pods: readonly string[];
  /** The port of targets from DNS; undefined if there are none. */
  dnsPort: number | undefined;
}

/**
 * Routes and pods that were removed stay known, because their connections stay open. So the lists grow with changes of the
 * configuration, and only with them.
 * @param current by the name of the route; the same object until the configuration changes
 */
export function createRouteTargets(current: () => ReadonlyMap<string, RouteTargets>) {
  let known: ReadonlyMap<string, RouteTargets> | undefined;
  const routes = new Map<string, { pods: Set<string>; ending: string }>();

  function update(): void {
    const next = current();
    if (known === next) return;
    known = next;
    for (const [route, { pods, dnsPort }] of next) {
      const all = new Set([...(routes.get(route)?.pods ?? []), ...pods]);
      routes.set(route, { pods: all, ending: dnsPort === undefined ? "" : `:${dnsPort}` });
    }
  }

  return {
    statusOf(route: string, pod: string): PodStatus {
      update();
      const targets = routes.get(route);
      if (targets === undefined) return "unknown";
      if (targets.pods.has(pod)) return "configured";
      // The resolver of a data plane may know other addresses than that of this service.
      return targets.ending !== "" && pod.endsWith(targets.ending) ? "possible" : "unknown";
    },
  };
}
