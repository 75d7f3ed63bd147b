/** The connection API for data planes: acquires, renews and releases slots with the limits of this service. */
import { UNKNOWN_APP } from "../../../core/codes.js";
import { connectionRetryAfter, reachedLimit } from "../../../core/refusals.js";
import { NO_POD } from "../../../engine/slots/slot-admission.js";
import { type PlaneBudgets, unboundedPlanes } from "../../../shared/access/plane-budgets.js";
import { type CountedRoute, countRoutes } from "../../../slots/route-counts.js";
import type { RouteLimits } from "../../../slots/route-limits.js";
import type { PodStatus } from "../../../slots/route-targets.js";
import type { SlotKeeperObserver } from "../../../slots/slot-keeper-options.js";
import type { RouteSlots } from "../../../slots/slots.js";
import {
  badField,
  type CallAccess,
  type Endpoint,
  endpoint,
  ok,
  problem,
  Rejected,
} from "../../operations/endpoint.js";
import * as messages from "./connection-messages.js";
import { createHeldRoutes, type HeldRequest, releaseHeld, renewHeld } from "./held-connections.js";
import { requireAmount, requireName, requireOwn } from "./plane-budget.js";
import { atomicReply, atomicRequest, atomicText, runAtomic } from "./redis-atomic.js";

export interface ConnectionApiOptions {
  slots: RouteSlots;
  /** The limits by route name. The first is the default of a new connection. */
  routes(): ReadonlyMap<string, RouteLimits>;
  /** Whether the pod is a target of the route. Default: every pod is. */
  isPod?(route: string, pod: string): PodStatus;
  budgets?: PlaneBudgets;
  /** The configured app that is charged; undefined if the app is refused. */
  appOf(name: string): string | undefined;
  /** The data plane admits the connections of the app that are refused here. */
  isDryRun?(app: string): boolean;
  timeoutMs(): number;
  observer?: Pick<SlotKeeperObserver, "decided">;
  /** From 0 to 1, for Retry-After. */
  random?: () => number;
}

/** A connection that is refused without the store. */
const refusedHere = { allowed: false, count: 0, pod: "", retryAfterMs: 0, incarnation: "0" };

/** Enough for 10,000 connections with long names. */
const MOST_BODY_BYTES = 4 * 1024 * 1024;

export function connectionEndpoints(options: ConnectionApiOptions): Endpoint[] {
  const { slots, routes, appOf, observer = {}, random = Math.random, budgets = unboundedPlanes } = options;
  const { isPod = () => "configured" } = options;
  const held = createHeldRoutes(routes);
  const deadline = () => ({ deadlineMs: options.timeoutMs() });

  function limitsOf(route?: string): { name: string; limits: RouteLimits } {
    for (const [name, limits] of routes()) if (route === undefined || route === name) return { name, limits };
    if (route !== undefined) throw badField("route", "must be the host and path of a route with connections");
    throw new Rejected(problem(404, "not_found", "no_connections", { detail: "no configured route has connections" }));
  }

  /** For renewals and releases; rejects if no route has connections. */
  function heldOptions(request: HeldRequest, access: CallAccess) {
    limitsOf();
    // Without a route, a connection is looked for on all of them.
    const places = request.connections.map(({ route = request.route }) => (route === undefined ? routes().size : 1));
    requireProxy(
      access,
      request.proxy,
      places.reduce((sum, one) => sum + one, 0),
    );
    return { slots, routes: routes(), leaseMsOf: held.leaseMsOf, appOf, deadline: deadline() };
  }

  /** @param connections that the message names, on each of their routes */
  function requireProxy(access: CallAccess, proxy: string, connections: number): void {
    requireOwn(access, proxy);
    requireName(budgets, access, "proxies", { name: proxy });
    requireAmount(budgets, access, "slots", connections);
  }

  /** The pods that are targets of the route. A plane with an older configuration may name others. */
  function targetsAmong(access: CallAccess, route: string, pods: string[]): string[] {
    return pods.filter((pod) => {
      const status = isPod(route, pod);
      return status === "configured" || (status === "possible" && budgets.uses(access.name, "pods", pod, route));
    });
  }

  return [
    endpoint("POST", "/v1/connections/acquire", "plane", {
      summary: "Acquires a slot for a new connection, on a given pod or the least loaded of several.",
      isShed: true,
      request: messages.acquireRequest,
      reply: messages.acquireReply,
      text: messages.acquireText,
      others: {
        503: {
          summary:
            "The store does not answer. Retry with the same connection, or release it: the slot may have been acquired.",
        },
      },
      async handle({ access, body: { proxy, connection, reclaim, memory, pod: only, ...asked } }) {
        requireProxy(access, proxy, 1);
        const { name: route, limits } = limitsOf(asked.route);
        if ((only === undefined) === (asked.pods === undefined)) {
          throw badField("pods", "must be given, or pod instead");
        }
        const pods = targetsAmong(access, route, asked.pods ?? [only ?? ""]);
        // A connection that exists must learn that it has no slot; otherwise the plane would ask for ever.
        if (pods.length === 0 && !reclaim) throw badField("pods", "must name a target of the route");
        const app = appOf(asked.app);
        const started = performance.now();
        const incarnation = String(memory);
        const request = { proxy, connection, app: app ?? "", client: asked.client, pods, reclaim, incarnation };
        const made =
          app === undefined || pods.length === 0
            ? { ...refusedHere, code: app === undefined ? UNKNOWN_APP : NO_POD }
            : await slots.of(route).acquire(request, limits, deadline());
        const { allowed, code, count, pod } = made;
        const milliseconds = performance.now() - started;
        const dryRun = app !== undefined && options.isDryRun?.(app) === true;
        observer.decided?.({ allowed, code, route, app: app ?? "", dryRun, pod, withoutStore: false, milliseconds });
        return ok({
          allowed,
          code,
          count,
          pod,
          limit: reachedLimit(code, limits),
          retry_after: allowed ? 0 : connectionRetryAfter(code, made.retryAfterMs, random()),
          lease_ms: limits.leaseMs,
          memory: Number(made.incarnation),
        });
      },
    }),

    endpoint("POST", "/v1/connections/renew", "plane", {
      summary: "Renews the leases of a proxy's connections. Without connections it is a heartbeat.",
      request: messages.heldRequest,
      mostBodyBytes: MOST_BODY_BYTES,
      reply: messages.renewReply,
      text: messages.renewText,
      async handle({ body, access }) {
        return ok(await renewHeld(body, heldOptions(body, access)));
      },
    }),

    endpoint("POST", "/v1/connections/release", "plane", {
      summary: "Releases the slots of closed connections. Idempotent.",
      request: messages.heldRequest,
      mostBodyBytes: MOST_BODY_BYTES,
      reply: messages.releaseReply,
      text: messages.releaseText,
      async handle({ body, access }) {
        return ok(await releaseHeld(body, heldOptions(body, access)));
      },
    }),

    endpoint("POST", "/v1/connections/counts", "plane", {
      summary: "Counts the connections of all routes or of one, and those on the given pods.",
      request: messages.countsRequest,
      reply: messages.countsReply,
      text: messages.countsText,
      async handle({ body }) {
        const { route, pods } = body;
        const named = route === undefined ? [...routes()] : [[route, limitsOf(route).limits] as const];
        if (named.length === 0) limitsOf();
        const asked = named.map(([name, { leaseMs }]) => ({ route: name, leaseMs, pods }));
        const { counted, unavailable } = await countRoutes(slots, asked, deadline());
        const sum = (count: (one: CountedRoute) => number) => counted.reduce((total, one) => total + count(one), 0);
        return ok({
          total: sum(({ total }) => total),
          rejected: sum(({ rejected }) => rejected),
          pods: Object.fromEntries(pods.map((pod) => [pod, sum(({ perPod }) => perPod.get(pod) ?? 0)])),
          unavailable,
        });
      },
    }),

    endpoint("POST", "/redis/atomic", "plane", {
      summary: "Slot operations for proxies that use Redis keys.",
      request: atomicRequest,
      reply: atomicReply,
      text: atomicText,
      async handle({ body, access }) {
        const requireOwnProxy = (proxy: string) => requireProxy(access, proxy, body.args.length);
        const requirePod = (route: string, pod: string) => {
          if (targetsAmong(access, route, [pod]).length === 0) throw badField("key", "must name a target of the route");
        };
        const options = { slots, routes: routes(), ...limitsOf(), requireOwnProxy, requirePod };
        return ok(await runAtomic(body, options, deadline()));
      },
    }),
  ];
}
