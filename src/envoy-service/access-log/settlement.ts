/** Settles exchanges that Envoy reports: charges or refunds the difference between the tokens taken and the actual cost. */
import { OK } from "../../core/codes.js";
import { type CostProfile, INVALID_COST, price } from "../../core/cost.js";
import type { Limiter } from "../../limiter/limiter.js";
import type { LogEntry, Marks } from "./messages.js";

export type FinishedExchange = Pick<Marks, "app" | "method" | "paid"> &
  Pick<LogEntry, "requestBytes" | "responseBytes">;

/** The tokens were taken from a lease of an Envoy worker, and are corrected on one of this process: the store adds both. */
export function createSettlement(
  limiter: Pick<Limiter, "settle" | "giveBack">,
  profileOf: (app: string) => CostProfile | undefined,
) {
  return ({ app, method, paid, requestBytes, responseBytes }: FinishedExchange): void => {
    const profile = profileOf(app);
    if (profile === undefined) return;
    const actual = price(profile, method, requestBytes + responseBytes);
    if (actual === INVALID_COST || actual === paid) return;
    if (actual < paid) {
      limiter.giveBack(app, paid - actual);
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
    } as const;
    limiter.settle(admitted, requestBytes, responseBytes);
  };
}
