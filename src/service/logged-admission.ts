/** An admission whose refusals and slow decisions are logged; for all others it costs nothing worth measuring. */
import type { Admission } from "../planes/node/admission.js";
import type { RateLimitVerdict } from "../planes/node/rate-limit-admission.js";
import type { DecisionLog } from "./log.js";

export function logAdmission(
  admission: Admission<RateLimitVerdict>,
  log: DecisionLog,
  slowMs: number,
): Admission<RateLimitVerdict> {
  function decided(verdict: RateLimitVerdict): RateLimitVerdict {
    if (!verdict.allowed) log.refused(verdict.decision);
    return verdict;
  }

  return {
    admit(arrival) {
      const verdict = admission.admit(arrival);
      // What is decided at once cannot have been slow.
      if (!(verdict instanceof Promise)) return decided(verdict);
      const started = performance.now();
      return verdict.then((later) => {
        const took = performance.now() - started;
        if (took >= slowMs) log.slow(later.decision, took);
        return decided(later);
      });
    },
    settle: (verdict, requestBytes, responseBytes) => admission.settle(verdict, requestBytes, responseBytes),
  };
}
