/** Logs refused and slow decisions. Their rate per app is limited; the rest are logged as a count. */
import { OK } from "../../core/codes.js";
import type { Decision } from "../../limiter/limiter.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import type { Log } from "../../shared/log.js";
import { createThrottle } from "../../shared/throttle.js";

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

/** Of all apps and kinds together. */
const MOST_LINES_PER_SECOND = 200;
const ALL = "*";

/** Decisions name configured apps only. */
export function createDecisionLog({ log, perSecond, slowMs, clock = systemClock }: DecisionLogOptions) {
  /** By kind and app. */
  const throttle = createThrottle({
    clock,
    perSecond: (name) => (name === ALL ? MOST_LINES_PER_SECOND : perSecond()),
    suppressed(name, suppressed) {
      const [kind, app] = name.split(" ");
      if (name === ALL) log.info({ suppressed }, "more decisions in the same second");
      else log.info({ app, kind, suppressed }, "more decisions of this kind in the same second");
    },
  });

  function write(kind: "refused" | "slow", decision: Decision, extra: Record<string, unknown>): void {
    const { app, code, cost, source, method, remaining, retryAfterMs, allowed, limitName: limit } = decision;
    if (!throttle.admits(`${kind} ${app}`) || !throttle.admits(ALL)) return;
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

  return {
    /** Logs the decision if it is a refusal, also on a dry run, or if it waited for long. */
    decided(decision: Decision, milliseconds: number, waited: boolean): void {
      // A decision that did not wait is slow only if the whole process was paused.
      if (waited && milliseconds >= slowMs()) write("slow", decision, { ms: Math.round(milliseconds) });
      if (decision.code !== OK) write("refused", decision, {});
    },
    /** Logs the pending counts. */
    close: throttle.flush,
  };
}
