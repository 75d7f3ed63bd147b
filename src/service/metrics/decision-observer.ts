/** Observes every decision of a process, on the Node plane and for Envoy: counts and times it, logs refusals and slow ones. */
import { OK } from "../../core/codes.js";
import type { Decision } from "../../limiter/decision.js";
import type { Limiter } from "../../limiter/limiter.js";
import type { DecisionLog } from "./decision-log.js";
import type { NodeMetrics } from "./node-metrics.js";

export interface DecisionObserverOptions {
  metrics: Pick<NodeMetrics, "decided" | "settled">;
  log: Pick<DecisionLog, "refused" | "slow">;
  /** Decisions that waited for longer are logged. */
  slowMs(): number;
  /** Milliseconds, monotonic. */
  now?: () => number;
}

export interface DecisionObserver {
  /** The same limiter, with every decision and settlement observed. */
  observe(limiter: Limiter): Limiter;
  /** A request that was refused before it reached the limiter. */
  refused(decision: Decision): void;
}

export function createDecisionObserver(options: DecisionObserverOptions): DecisionObserver {
  const { metrics, log, slowMs, now = () => performance.now() } = options;

  function decided(decision: Decision, ms: number, waited: boolean): Decision {
    metrics.decided(decision, ms / 1000, waited);
    // A decision that did not wait is slow only if the whole process was paused.
    if (waited && ms >= slowMs()) log.slow(decision, ms);
    if (decision.code !== OK) log.refused(decision);
    return decision;
  }

  function observed(made: Decision | Promise<Decision>, started: number): Decision | Promise<Decision> {
    if (!(made instanceof Promise)) return decided(made, now() - started, false);
    return made.then((later) => decided(later, now() - started, true));
  }

  return {
    observe: (limiter) => ({
      ...limiter,
      check(app, method, contentLength) {
        const started = now();
        return observed(limiter.check(app, method, contentLength), started);
      },
      take(app, cost) {
        const started = now();
        return observed(limiter.take(app, cost), started);
      },
      settle(decision, requestBytes, responseBytes) {
        metrics.settled(decision);
        limiter.settle(decision, requestBytes, responseBytes);
      },
      limits: {
        ...limiter.limits,
        take(limit, cost) {
          const started = now();
          return observed(limiter.limits.take(limit, cost), started);
        },
      },
    }),
    refused: (decision) => void decided(decision, 0, false),
  };
}
