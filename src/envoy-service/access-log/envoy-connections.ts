/**
 * The WebSocket connections that Envoys hold, from their log entries. Each route has its own slots and calls: a failure of
 * its store affects no other route.
 */
import { type Clock, systemClock } from "../../shared/clock.js";
import type { SlotCalls, SlotKeeperObserver } from "../../slots/slot-keeper-options.js";
import type { SlotLimits } from "../../slots/slots.js";
import { createConnectionStats } from "./connection-stats.js";
import { createRouteConnections, type EnvoySocket, keyOf, type RouteConnections } from "./route-connections.js";

export interface EnvoyConnectionsOptions {
  slots: SlotCalls;
  leaseMs(route: string): number;
  timeoutMs(): number;
  /** Limits of connections that are counted again; undefined if the route is not configured any more. */
  reclaimLimits?(route: string): SlotLimits | undefined;
  /** All pods that a connection of the route may be on. */
  podsOf(route: string): readonly string[];
  /** The configured app that pays for an app of this name. */
  appOf(name: string): string;
  observer?: SlotKeeperObserver;
  clock?: Clock;
}

export type EnvoyConnections = ReturnType<typeof createEnvoyConnections>;

/** Above this number, routes without work are removed from memory. */
const MANY_ROUTES = 1_000;

export function createEnvoyConnections(options: EnvoyConnectionsOptions) {
  const { slots, timeoutMs, podsOf, appOf, observer = {}, clock = systemClock } = options;
  const routes = new Map<string, RouteConnections>();
  const counted = createConnectionStats(clock, options.leaseMs);
  let closed = false;

  function on(route: string): RouteConnections {
    let known = routes.get(route);
    if (known === undefined) {
      if (routes.size >= MANY_ROUTES) for (const [name, one] of routes) if (one.isIdle()) routes.delete(name);
      const leaseMs = () => options.leaseMs(route);
      const { reclaimLimits } = options;
      const limited = reclaimLimits === undefined ? {} : { reclaimLimits: () => reclaimLimits(route) };
      const shared = { timeoutMs, observer, clock, ...limited };
      known = createRouteConnections({ route, slots: () => slots.of(route), leaseMs, ...shared });
      routes.set(route, known);
    }
    return known;
  }

  return {
    /** `node` is the name of the Envoy that reports it. */
    alive(socket: EnvoySocket, node: string): void {
      // The script is still waiting for the decision about its slot.
      if (closed || socket.pod === "") return;
      counted.seen(keyOf(socket), socket, node);
      on(socket.route).alive({ ...socket, app: appOf(socket.app) });
    },

    ended(socket: EnvoySocket): void {
      counted.ended(keyOf(socket));
      // The service may have assigned a pod, or may still do so, after the client disconnected.
      const pods = socket.pod === "" ? podsOf(socket.route) : [socket.pod];
      on(socket.route).ended({ ...socket, app: appOf(socket.app) }, pods);
    },

    stats: counted.stats,
    /** Releases that the store has not acknowledged. */
    releasesWaiting: () => [...routes.values()].reduce((sum, one) => sum + one.releasesWaiting(), 0),

    /** Sends the releases that wait. Open connections are renewed by the service that gets their next entries. */
    async close(): Promise<void> {
      closed = true;
      await Promise.all([...routes.values()].map((one) => one.close()));
    },
  };
}
