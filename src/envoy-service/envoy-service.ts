/** The service for Envoys: one listener with the Rate Limit Service, the Access Log Service, health checks and HTTP routes. */
import type { EnvoyServiceOptions } from "../config/options/service.js";
import { DEFAULT_APP } from "../core/identity.js";
import type { DescriptorLimiter } from "../limiter/descriptors/descriptor-limiter.js";
import type { Limiter } from "../limiter/limiter.js";
import { planeValues, TOO_MANY_VALUES } from "../limiter/limits/plane-values.js";
import type { Quota } from "../quota/quota.js";
import { type BudgetName, createPlaneBudgets, OVER_BUDGET } from "../shared/access/plane-budgets.js";
import { systemClock } from "../shared/clock.js";
import type { Log } from "../shared/log.js";
import { createRouteTargets } from "../slots/route-targets.js";
import type { SlotCalls, SlotKeeperObserver } from "../slots/slot-keeper-options.js";
import { createEnvoyConnections } from "./access-log/envoy-connections.js";
import { createRefunds } from "./access-log/refunds.js";
import type { EnvoySocket } from "./access-log/route-connections.js";
import { createAccessLogService } from "./access-log/service.js";
import { createSettlement } from "./access-log/settlement.js";
import { createCheckApi } from "./check-api.js";
import { createHealthService } from "./grpc/health-service.js";
import type { HttpRoute } from "./http-routes.js";
import { createEnvoyListener } from "./listener.js";
import { createPaidForPlanes } from "./paid-for-planes.js";
import { createJsonApi, createRateLimitService } from "./rate-limit/service.js";

export interface EnvoyServiceDependencies {
  limiter: Pick<
    Limiter,
    "take" | "takeForPlane" | "takeTogetherForPlane" | "giveBackForPlane" | "settle" | "giveBack" | "limitsOf"
  >;
  quota: Pick<Quota, "refund">;
  descriptors: Pick<DescriptorLimiter, "decide">;
  slots: SlotCalls;
  /** Targets of an upstream that were found by DNS. */
  discoveredPods(upstream: string): string[] | undefined;
  observer: SlotKeeperObserver;
  /** A data plane exceeded its budget. Must not throw. */
  overBudget?(budget: BudgetName): void;
  /** Whether to refuse a call because of overload. */
  sheds(): boolean;
  log: Log;
}

export function createEnvoyService(initial: EnvoyServiceOptions, dependencies: EnvoyServiceDependencies) {
  const { limiter, quota, descriptors, slots, discoveredPods, observer, sheds, log } = dependencies;
  let options = initial;
  let serving = true;
  const budgets = createPlaneBudgets({
    most: (budget, isCommon) => options.budget(budget, isCommon),
    clock: systemClock,
    exceeded: (plane, budget, most) =>
      log.warn({ plane, budget, most }, budget === "values" ? TOO_MANY_VALUES : OVER_BUDGET),
    refused: (budget) => dependencies.overBudget?.(budget),
  });
  const targets = createRouteTargets(() => options.targets);
  const connections = createEnvoyConnections({
    slots,
    observer,
    leaseMs: (route) => options.leaseMsOf(route),
    timeoutMs: () => options.timeoutMs,
    reclaimLimits: (route) => options.reclaimLimitsOf(route),
    podsOf: (route) => options.podsOf(route, discoveredPods),
    appOf: (name) => (limiter.limitsOf(name) === undefined ? DEFAULT_APP : name),
  });
  const paidForPlanes = createPaidForPlanes(limiter.limitsOf);
  const refunds = createRefunds({ quota, log });
  const settle = createSettlement({
    limiter,
    profileOf: (route) => options.routeProfiles.get(route),
    paidForPlanes,
    refunds,
  });
  /** Whether a plane may report this connection. Others are ignored: they have no slot. */
  function admits({ proxy, pod, route }: EnvoySocket, plane: string): boolean {
    const isRoute = options.targets.has(route);
    const status = pod === "" ? (isRoute ? "configured" : "unknown") : targets.statusOf(route, pod);
    if (status === "unknown") return false;
    if (status === "possible" && !budgets.uses(plane, "pods", pod, route)) return false;
    return budgets.uses(plane, "proxies", proxy) && budgets.spends(plane, "slots", 1);
  }

  const rateLimit = { descriptors, headers: () => options.headers };
  const services = [createRateLimitService(rateLimit), createAccessLogService({ connections, admits, settle, log })];
  const names = services.map(({ path }) => path.split("/")[1] ?? "");
  const healthCheck: HttpRoute = {
    method: "GET",
    path: "/healthcheck",
    isPublic: true,
    handle: () => ({
      status: serving ? 200 : 503,
      headers: { "content-type": "text/plain" },
      body: serving ? "OK" : "STOPPING",
    }),
  };
  const checkApi = createCheckApi({
    limiter,
    paid: paidForPlanes,
    values: planeValues(budgets),
    timeoutMs: () => options.timeoutMs,
  });
  const listener = createEnvoyListener({
    methods: [...services, createHealthService(names, () => serving)],
    routes: [createJsonApi(rateLimit), checkApi, healthCheck],
    access: () => options.access,
    limits: () => options.limits,
    sheds,
    log,
  });
  return {
    ...listener,
    /** The WebSocket connections that Envoys hold. */
    connections,
    refunds,
    reconfigure(changed: EnvoyServiceOptions): void {
      options = changed;
    },
    close(graceMs: number): Promise<void> {
      serving = false;
      return listener.close(graceMs);
    },
  };
}
