/** Renews and releases the connections of one message, each on its route. Routes are called in parallel. */
import type * as z from "zod";
import { MAX_BATCH } from "../../../scripts/common/slots.js";
import { mapConcurrently } from "../../../shared/concurrently.js";
import { onEachRoute } from "../../../slots/route-counts.js";
import type { RouteLimits } from "../../../slots/route-limits.js";
import type { RouteSlots, SlotName, Slots } from "../../../slots/slots.js";
import type { RunOptions } from "../../../store/store.js";
import { badField } from "../../operations/endpoint.js";
import type { heldRequest, releaseReply, renewReply } from "./connection-messages.js";

export type HeldRequest = z.output<typeof heldRequest>;

interface HeldOptions {
  slots: RouteSlots;
  routes: ReadonlyMap<string, RouteLimits>;
  /** Undefined for a route that was never configured. */
  leaseMsOf(route: string): number | undefined;
  appOf(name: string): string | undefined;
  deadline: RunOptions;
}

/** Calls at a time for one route. */
const CALLS_AT_ONCE = 4;

/** The leases of routes, including those that were removed from the configuration: their connections stay open. */
export function createHeldRoutes(routes: () => ReadonlyMap<string, RouteLimits>) {
  let current = routes();
  /** Grows only with the routes that operators remove. */
  const removed = new Map<string, number>();
  return {
    leaseMsOf(route: string): number | undefined {
      const now = routes();
      if (now !== current) for (const [name, { leaseMs }] of current) removed.set(name, leaseMs);
      current = now;
      return now.get(route)?.leaseMs ?? removed.get(route);
    },
  };
}

interface OnRoute {
  route: string;
  leaseMs: number;
  connections: SlotName[];
}

/** A heartbeat, without connections, is for the named route or for all. */
function byRoute({ connections, route: common }: HeldRequest, { routes, leaseMsOf, appOf }: HeldOptions): OnRoute[] {
  const groups = new Map<string, OnRoute>();
  function on(route: string, field = "route"): OnRoute {
    const leaseMs = leaseMsOf(route);
    if (leaseMs === undefined) throw badField(field, "must be the host and path of a route with connections");
    const group = groups.get(route) ?? { route, leaseMs, connections: [] };
    groups.set(route, group);
    return group;
  }
  if (common !== undefined) on(common);
  else if (connections.length === 0) for (const name of routes.keys()) on(name);
  for (const [i, { connection, pod, app, client, route = common }] of connections.entries()) {
    const slot = { connection, pod, app: appOf(app) ?? "", client };
    const field = `connections[${i}].route`;
    for (const name of route === undefined ? routes.keys() : [route]) on(name, field).connections.push(slot);
  }
  return [...groups.values()];
}

/** Calls the store in batches. `missing` are connections that none of the routes knows. */
async function onRoutes<T>(
  request: HeldRequest,
  options: HeldOptions,
  call: (slots: Slots, batch: SlotName[], leaseMs: number) => Promise<{ answer: T; missing: string[] }>,
) {
  const groups = byRoute(request, options);
  const { answers, unavailable } = await onEachRoute(groups, async ({ route, leaseMs, connections }) => {
    const batches: SlotName[][] = [];
    for (let i = 0; i < connections.length; i += MAX_BATCH) batches.push(connections.slice(i, i + MAX_BATCH));
    const slots = options.slots.of(route);
    const replies = await mapConcurrently(batches.length === 0 ? [[]] : batches, CALLS_AT_ONCE, (batch) =>
      call(slots, batch, leaseMs),
    );
    return { route, leaseMs, replies };
  });
  const missingOn = new Map(
    answers.map(({ route, replies }) => [route, new Set(replies.flatMap(({ missing }) => missing))]),
  );
  const everywhere = [...options.routes.keys()];
  const missing = request.connections.flatMap(({ connection, route = request.route }) => {
    const possible = route === undefined ? everywhere : [route];
    return possible.every((name) => missingOn.get(name)?.has(connection)) ? [connection] : [];
  });
  return { answers, unavailable, missing };
}

export async function renewHeld(request: HeldRequest, options: HeldOptions): Promise<z.output<typeof renewReply>> {
  const { answers, unavailable, missing } = await onRoutes(request, options, async (slots, batch, leaseMs) => {
    const { lost, ...answer } = await slots.renew(request.proxy, leaseMs, batch, options.deadline);
    return { answer, missing: lost };
  });
  const routes = answers.map(({ route, leaseMs, replies }) => ({
    ...{ route, lease_ms: leaseMs, memory: Number(replies.at(-1)?.answer.incarnation) },
  }));
  return {
    renewed: answers.flatMap(({ replies }) => replies).reduce((sum, { answer }) => sum + answer.renewed, 0),
    lost: missing,
    lease_ms: Math.min(...routes.map((one) => one.lease_ms)),
    memory: routes.length + unavailable.length === 1 ? routes[0]!.memory : 0,
    routes,
    unavailable,
  };
}

export async function releaseHeld(request: HeldRequest, options: HeldOptions): Promise<z.output<typeof releaseReply>> {
  const { answers, unavailable, missing } = await onRoutes(request, options, async (slots, batch, leaseMs) => {
    const { released, unknown } = await slots.release(request.proxy, leaseMs, batch, options.deadline);
    return { answer: released, missing: unknown };
  });
  const released = answers.flatMap(({ replies }) => replies).reduce((sum, { answer }) => sum + answer, 0);
  return { released, unknown: missing, unavailable };
}
