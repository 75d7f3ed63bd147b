/** Logs refused and slow decisions. Their rate per app is limited; the rest are logged as a count. */
import { OK } from "../../core/codes.js";
import type { Decision } from "../../limiter/limiter.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import type { Log } from "../../shared/log.js";

export type DecisionLog = ReturnType<typeof createDecisionLog>;

export interface DecisionLogOptions {
  log: Log;
  /** Lines per second, app and kind. */
  perSecond(): number;
  /** Decisions that waited for longer are logged. */
  slowMs(): number;
  clock?: Clock;
}

const LONGEST_METHOD = 32;

/** Decisions name configured apps only, so memory is bounded by the configuration. */
export function createDecisionLog({ log, perSecond, slowMs, clock = systemClock }: DecisionLogOptions) {
  /** Decisions of the current second, by kind and app. */
  const decisions = new Map<string, { logged: number; suppressed: number }>();
  let stopTimer = clock.after(1_000, nextSecond);

  function write(kind: "refused" | "slow", decision: Decision, extra: Record<string, unknown>): void {
    const { app, code, cost, source, method, remaining, retryAfterMs, allowed, limitName: limit } = decision;
    const name = `${kind} ${app}`;
    const counts = decisions.get(name) ?? { logged: 0, suppressed: 0 };
    decisions.set(name, counts);
    if (counts.logged >= perSecond()) {
      counts.suppressed++;
      return;
    }
    counts.logged++;
    const named = limit === undefined ? { app } : { app, limit };
    const fields = {
      ...named,
      reason: code,
      cost,
      source,
      method: method.slice(0, LONGEST_METHOD),
      remaining,
      ...extra,
    };
    if (kind === "slow") log.warn(fields, "slow decision");
    else if (allowed) log.info({ ...fields, dry_run: true }, "would be refused");
    else log.info({ ...fields, retry_after_ms: retryAfterMs }, "refused");
  }

  function logSuppressed(): void {
    for (const [name, { suppressed }] of decisions) {
      const [kind, app] = name.split(" ");
      if (suppressed > 0) log.info({ app, kind, suppressed }, "more decisions of this kind in the same second");
    }
    decisions.clear();
  }

  function nextSecond(): void {
    stopTimer = clock.after(1_000, nextSecond);
    logSuppressed();
  }

  return {
    /** Logs the decision if it is a refusal, also on a dry run, or if it waited for long. */
    decided(decision: Decision, milliseconds: number, waited: boolean): void {
      // A decision that did not wait is slow only if the whole process was paused.
      if (waited && milliseconds >= slowMs()) write("slow", decision, { ms: Math.round(milliseconds) });
      if (decision.code !== OK) write("refused", decision, {});
    },
    /** Logs the pending counts and stops. */
    close(): void {
      stopTimer();
      logSuppressed();
    },
  };
}
