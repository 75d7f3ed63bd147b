/** A limiter whose decisions for Envoys are counted and logged as those for the gateway's own requests are. */
import { OK } from "../core/codes.js";
import type { Decision } from "../limiter/decision.js";
import type { Limiter } from "../limiter/limiter.js";
import type { Telemetry } from "../service/metrics/telemetry.js";
import type { DecisionLog } from "../service/process/log.js";

export interface ObservedLimiterOptions {
  limiter: Limiter;
  telemetry: Pick<Telemetry, "decided">;
  log: DecisionLog;
  /** Decisions that take longer are logged, whatever they were. */
  slowMs(): number;
  /** Milliseconds that never go back. */
  now?: () => number;
}

export function observeLimiter(options: ObservedLimiterOptions): Limiter {
  const { limiter, telemetry, log, slowMs, now = () => performance.now() } = options;

  function observed(decide: () => Decision | Promise<Decision>): Decision | Promise<Decision> {
    const started = now();
    const made = decide();
    if (!(made instanceof Promise)) return decided(made, now() - started, false);
    return made.then((later) => decided(later, now() - started, true));
  }

  function decided(decision: Decision, ms: number, waited: boolean): Decision {
    telemetry.decided(decision, ms / 1000, waited);
    if (waited && ms >= slowMs()) log.slow(decision, ms);
    if (decision.code !== OK) log.refused(decision);
    return decision;
  }

  return {
    ...limiter,
    take: (app, cost) => observed(() => limiter.take(app, cost)),
    limits: { ...limiter.limits, take: (limit, cost) => observed(() => limiter.limits.take(limit, cost)) },
  };
}
