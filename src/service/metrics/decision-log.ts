/** Logs refused and slow decisions. Their rate per app is limited; the rest are logged as a count. */
import { OK } from "../../core/codes.js";
import type { Decision } from "../../limiter/decision.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import type { Log } from "../../shared/log.js";

export interface DecisionLog {
  /** Logs the decision if it is a refusal, also on a dry run, or if it waited for long. */
  decided(decision: Decision, milliseconds: number, waited: boolean): void;
  /** Logs the pending counts and stops. */
  close(): void;
}

export interface DecisionLogOptions {
  log: Log;
  /** Lines per second, app and kind. */
  perSecond(): number;
  /** Decisions that waited for longer are logged. */
  slowMs(): number;
  clock?: Clock;
}

interface Sampling {
  second: number;
  logged: number;
  suppressed: number;
}

const LONGEST_METHOD = 32;

/** Decisions name configured apps only, so memory is bounded by the configuration. */
export function createDecisionLog({ log, perSecond, slowMs, clock = systemClock }: DecisionLogOptions): DecisionLog {
  const samplings = new Map<string, Sampling>();
  let stopTimer = clock.after(1_000, sweep);

  function write(kind: "refused" | "slow", decision: Decision, extra: Record<string, unknown>): void {
    const { app, code, cost, source, method, remaining, retryAfterMs, allowed } = decision;
    const second = Math.floor(clock.now() / 1000);
    const name = `${kind} ${app}`;
    let sampling = samplings.get(name);
    if (sampling === undefined) {
      sampling = { second, logged: 0, suppressed: 0 };
      samplings.set(name, sampling);
    }
    if (sampling.second !== second) {
      logSuppressed(name, sampling);
      sampling.second = second;
      sampling.logged = 0;
    }
    if (sampling.logged >= perSecond()) {
      sampling.suppressed++;
      return;
    }
    sampling.logged++;
    const fields = { app, reason: code, cost, source, method: method.slice(0, LONGEST_METHOD), remaining, ...extra };
    if (kind === "slow") log.warn(fields, "slow decision");
    else if (allowed) log.info({ ...fields, dry_run: true }, "would be refused");
    else log.info({ ...fields, retry_after_ms: retryAfterMs }, "refused");
  }

  function logSuppressed(name: string, sampling: Sampling): void {
    if (sampling.suppressed === 0) return;
    const [kind, app] = name.split(" ");
    log.info({ app, kind, suppressed: sampling.suppressed }, "more decisions of this kind in the same second");
    sampling.suppressed = 0;
  }

  function sweep(): void {
    stopTimer = clock.after(1_000, sweep);
    const second = Math.floor(clock.now() / 1000);
    for (const [name, sampling] of samplings) if (sampling.second !== second) logSuppressed(name, sampling);
  }

  return {
    decided(decision, milliseconds, waited) {
      // A decision that did not wait is slow only if the whole process was paused.
      if (waited && milliseconds >= slowMs()) write("slow", decision, { ms: Math.round(milliseconds) });
      if (decision.code !== OK) write("refused", decision, {});
    },
    close() {
      stopTimer();
      for (const [name, sampling] of samplings) logSuppressed(name, sampling);
    },
  };
}
