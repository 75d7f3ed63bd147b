/** The response headers of decisions on Node. */
import {
  type HeaderOptions,
  headerWriter,
  type LimitedDecision,
  type LimitTexts,
  limitTexts,
  resetSeconds,
  writeLimits,
} from "../core/refusals.js";

interface KnownTexts extends LimitTexts {
  limit: number;
  rate: number;
}

/** More names than a configuration has: those of earlier ones are forgotten. */
const MAX_KNOWN = 20_000;

function setField(headers: Record<string, string>, name: string, value: string): void {
  headers[name] = value;
}

/** Remembers the texts of apps or limits by name: they change only with the configuration, and in an emergency. */
function rememberTexts() {
  const known = new Map<string, KnownTexts>();
  return (name: string, limit: number, rate: number): LimitTexts => {
    const texts = known.get(name);
    if (texts !== undefined && texts.limit === limit && texts.rate === rate) return texts;
    if (known.size >= MAX_KNOWN) known.clear();
    const made = { ...limitTexts(name, limit, rate), limit, rate };
    known.set(name, made);
    return made;
  };
}

/** Returns a function that makes the headers of a decision: names and values in the order in which they are sent. */
export function decisionHeaders(options: HeaderOptions) {
  const write = headerWriter(options, setField);
  const textsOfApp = rememberTexts();
  const textsOfLimit = rememberTexts();
  /** Reused for every decision. */
  const textsOfLimits: LimitTexts[] = [];
  return (decision: LimitedDecision): Record<string, string> => {
    const { app, limit, remaining, rate, limits } = decision;
    const headers: Record<string, string> = {};
    const texts = textsOfApp(app, limit, rate);
    if (limits === undefined || limits.length === 0) {
      write(headers, decision, texts, resetSeconds(limit, remaining, rate));
      return headers;
    }
    for (let i = 0; i < limits.length; i++) {
      const view = limits[i]!;
      textsOfLimits[i] = textsOfLimit(view.name, view.limit, view.rate);
    }
    const { allowed, code, dryRun, cost, retryAfterMs, limitName } = decision;
    const shown = { allowed, code, dryRun, app, cost, remaining, limit, rate, retryAfterMs, limitName };
    writeLimits(write, headers, { ...shown, texts, limits, textsOfLimits });
    return headers;
  };
}
