/** Settles exchanges that Envoy reports: charges or refunds the difference between the tokens taken and the actual cost. */
import { OK } from "../../core/codes.js";
import { type CostProfile, INVALID_COST } from "../../core/cost.js";
import { actualCost } from "../../engine/settle.js";
import type { Limiter } from "../../limiter/limiter.js";
import type { PaidForPlanes } from "../paid-for-planes.js";
import type { LogEntry, Marks } from "./messages.js";
import type { Refunds } from "./refunds.js";

/** `route`: of an exchange that may have been priced by its route; otherwise empty. */
export type FinishedExchange = Pick<Marks, "app" | "route" | "method" | "paid" | "node" | "reportedCost"> &
  Pick<LogEntry, "requestBytes" | "responseBytes">;

interface SettlementDependencies {
  limiter: Pick<Limiter, "settle" | "giveBack" | "limitsOf">;
  /** The prices of a route that has its own. */
  profileOf(route: string): CostProfile | undefined;
  paidForPlanes: Pick<PaidForPlanes, "takeBack">;
  refunds: Pick<Refunds, "add">;
}

/**
 * Charges go to a lease of this process, also if the tokens were taken from one of an Envoy worker: the store adds both. `paid`
 * is only what the plane claims. So it gets back what this process has paid for it, and what its node has spent, and no more.
 */
export function createSettlement({ limiter, profileOf, paidForPlanes, refunds }: SettlementDependencies) {
  return (exchange: FinishedExchange, plane: string): void => {
    const { app, route, method, paid, node, reportedCost, requestBytes, responseBytes } = exchange;
    const limits = limiter.limitsOf(app);
    if (limits === undefined) return;
    const profile = profileOf(route) ?? limits.profile;
    const actual = actualCost({ method, profile, reportedCost }, requestBytes, responseBytes);
    if (actual === INVALID_COST || actual === paid) return;
    if (actual < paid) {
      const paidHere = paidForPlanes.takeBack(plane, app, paid - actual);
      limiter.giveBack(app, paidHere);
      const tokens = paid - actual - paidHere;
      if (tokens > 0 && node !== "") refunds.add({ plane, node, limits, tokens });
      return;
    }
    const admitted = {
      allowed: true,
      code: OK,
      dryRun: false,
      app,
      method,
      cost: paid,
      balance: 0,
      remaining: 0,
      limit: 0,
      rate: 0,
      retryAfterMs: 0,
      source: "remote",
      profile: profile.route === undefined ? undefined : profile,
    } as const;
    limiter.settle(admitted, requestBytes, responseBytes, { reportedCost });
  };
}
