/** An admission whose decisions are counted and timed, and whose refusals and slow decisions are logged. */
import { OK } from "../../core/codes.js";
import type { Admission } from "../../planes/node/http/admission.js";
import type { RateLimitVerdict } from "../../planes/node/http/rate-limit-admission.js";
import type { DecisionLog } from "../process/log.js";
import type { Telemetry } from "./telemetry.js";

export interface ObservedAdmissionOptions {
  admission: Admission<RateLimitVerdict>;
  telemetry: Pick<Telemetry, "decided" | "settled">;
  log: DecisionLog;
  /** Decisions that take longer are logged, whatever they were. */
  slowMs(): number;
  /** Milliseconds that never go back. */
  now?: () => number;
}

export function observeAdmission(options: ObservedAdmissionOptions): Admission<RateLimitVerdict> {
  const { admission, telemetry, log, slowMs, now = () => performance.now() } = options;

  function decided(verdict: RateLimitVerdict, started: number, waited: boolean): RateLimitVerdict {
    const { decision } = verdict;
    const ms = now() - started;
    telemetry.decided(decision, ms / 1000, waited);
    // What is decided at once is slow only when the whole process was stopped.
    if (waited && ms >= slowMs()) log.slow(decision, ms);
    if (decision.code !== OK) log.refused(decision);
    return verdict;
  }

  return {
    admit(arrival) {
      const started = now();
      const verdict = admission.admit(arrival);
      if (!(verdict instanceof Promise)) return decided(verdict, started, false);
      return verdict.then((later) => decided(later, started, true));
    },
    settle(verdict, requestBytes, responseBytes) {
      telemetry.settled(verdict.decision);
      admission.settle(verdict, requestBytes, responseBytes);
    },
  };
}
