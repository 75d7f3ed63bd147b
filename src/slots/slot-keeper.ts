/** Keeps the connection slots of a process. Each route has its own keeper: a failure of its store affects no other route. */
import { randomBytes } from "node:crypto";
import { NO_CONNECTIONS } from "../engine/slots/slot-admission.js";
import { systemClock } from "../shared/clock.js";
import type { ConnectionRequest, ConnectionVerdict } from "./connection-admission.js";
import { createRouteKeeper, type RouteKeeper, refuseConnection } from "./route-keeper.js";
import type { ConnectionOptions, SlotKeeperOptions } from "./slot-keeper-options.js";

/** A process makes at most this many calls per second for routes on which it has no connection. */
const HEARTBEATS_PER_SECOND = 20;

/**
 * Name of a process, new after each restart: slots that it held before belong to the former name. A valid identifier for
 * the store, whatever the node's name contains.
 */
export function newProxyId(node: string): string {
  const name = node.replace(/[^A-Za-z0-9._:-]/g, "-").slice(0, 100);
  return `${name}.${Date.now().toString(36)}${randomBytes(4).toString("hex")}`;
}

export type SlotKeeper = ReturnType<typeof createSlotKeeper>;

export function createSlotKeeper(options: SlotKeeperOptions) {
  const { slots, proxy, liveProxies, clock = systemClock, observer = {}, random = Math.random } = options;
  /** By the hash tag of the route; also of removed routes that had connections, and of former placements. */
  const keepers = new Map<string, RouteKeeper>();
  let lastConnection = 0;
  const newConnection = () => (++lastConnection).toString(36);
  applyOptions(options);

  function applyOptions({ routes, timeoutMs }: ConnectionOptions): void {
    const tags = new Set([...routes.keys()].map(slots.tagOf));
    for (const [tag, keeper] of keepers) {
      if (tags.has(tag)) continue;
      keeper.reconfigure({ limits: undefined, timeoutMs, heartbeatMs: 0 });
      if (!keeper.isIdle()) continue;
      keepers.delete(tag);
      void keeper.close();
    }
    for (const [route, limits] of routes) {
      const tag = slots.tagOf(route);
      // Each lease clock must be read several times per lease.
      const heartbeatMs = Math.min((routes.size * 1000) / HEARTBEATS_PER_SECOND, limits.leaseMs / 4);
      const known = keepers.get(tag);
      if (known !== undefined) {
        known.reconfigure({ limits, timeoutMs, heartbeatMs });
        continue;
      }
      const shared = { proxy, liveProxies, clock, observer, random, newConnection };
      keepers.set(tag, createRouteKeeper({ ...shared, route, slots: slots.of(route), limits, timeoutMs, heartbeatMs }));
    }
  }

  return {
    async admit(request: ConnectionRequest): Promise<ConnectionVerdict> {
      const keeper = keepers.get(slots.tagOf(request.route));
      if (keeper !== undefined) return keeper.admit(request);
      const { app, route, dryRun } = request;
      const refused = { allowed: false, code: NO_CONNECTIONS, pod: "", withoutStore: false, milliseconds: 0 };
      observer.decided?.({ ...refused, route, app, dryRun });
      return refuseConnection(NO_CONNECTIONS, { app, random: random() });
    },
    /** Open connections stay, whatever the new limits are. */
    reconfigure: applyOptions,
    /** Admits no more connections. */
    drain(): void {
      for (const keeper of keepers.values()) keeper.drain();
    },
    /** Releases all slots, waits until that is acknowledged or the store fails, and stops. */
    async close(): Promise<void> {
      await Promise.all([...keepers.values()].map((keeper) => keeper.close()));
    },
    stats() {
      const all = [...keepers.values()].map((keeper) => keeper.stats());
      const sum = (count: (one: ReturnType<RouteKeeper["stats"]>) => number) =>
        all.reduce((total, one) => total + count(one), 0);
      return {
        active: sum(({ active }) => active),
        /** Admitted without the store. */
        withoutLease: sum(({ withoutLease }) => withoutLease),
        /** Connections held by this process per route and pod, and the limit for all processes together. */
        pods: all.flatMap(({ pods }) => pods),
        releasesWaiting: sum(({ releasesWaiting }) => releasesWaiting),
        /** The store does not answer for some route. */
        storeAway: all.some(({ storeAway }) => storeAway),
        recovered: all.every(({ recovered }) => recovered),
      };
    },
  };
}
