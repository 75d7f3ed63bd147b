/** The response headers of decisions on Node. */
import { OK } from "../core/codes.js";
import {
  type HeaderOptions,
  headerWriter,
  type LimitedDecision,
  type LimitTexts,
  limitTexts,
  resetSeconds,
  type ShownDecision,
  showLimit,
  startShowing,
  TOKENS,
  writeLimits,
} from "../core/response-headers.js";

interface KnownTexts extends LimitTexts {
  name: string;
  limit: number;
  rate: number;
  unit: string;
}

/** More names than a configuration has: those of earlier ones are forgotten. */
const MAX_KNOWN = 20_000;

function setField(headers: Record<string, string>, name: string, value: string): void {
  headers[name] = value;
}

/** Remembers the texts of apps or limits by name: they change only with the configuration, and in an emergency. */
function rememberTexts() {
  const known = new Map<string, KnownTexts>();
  return (name: string, limit: number, rate: number, unit: string): KnownTexts => {
    const texts = known.get(name);
    if (texts?.unit === unit && isOf(texts, name, limit, rate)) return texts;
    if (known.size >= MAX_KNOWN) known.clear();
    const made = { ...limitTexts(name, limit, rate, unit), name, limit, rate, unit };
    known.set(name, made);
    return made;
  };
}

function isOf(texts: KnownTexts, name: string, limit: number, rate: number): boolean {
  return texts.name === name && texts.limit === limit && texts.rate === rate;
}

const NO_TEXTS: KnownTexts = { ...limitTexts("", 0, 0, TOKENS), name: "", limit: 0, rate: 0, unit: TOKENS };

/** Not made with a spread: objects of many fields would be slower. */
function newShown(textsOfLimits: LimitTexts[]): ShownDecision {
  return {
    allowed: false,
    code: OK,
    dryRun: false,
    app: "",
    cost: 0,
    remaining: 0,
    limit: 0,
    retryAfterMs: 0,
    limitName: undefined,
    rate: 0,
    texts: NO_TEXTS,
    limits: [],
    textsOfLimits,
    count: 0,
    last: 0,
    least: 0,
  };
}

/** Returns a function that makes the headers of a decision: names and values in the order in which they are sent. */
export function decisionHeaders(options: HeaderOptions) {
  const write = headerWriter(options, setField);
  const textsOfApp = rememberTexts();
  const textsOfLimit = rememberTexts();
  /** Reused for every decision. Most requests have the same app and limits as the one before. */
  let texts = NO_TEXTS;
  const textsOfLimits: KnownTexts[] = [];
  const shown = newShown(textsOfLimits);
  return (decision: LimitedDecision): Record<string, string> => {
    const { app, limit, remaining, rate, limits } = decision;
    const headers: Record<string, string> = {};
    if (!isOf(texts, app, limit, rate)) texts = textsOfApp(app, limit, rate, decision.unit ?? TOKENS);
    if (limits === undefined || limits.length === 0) {
      write(headers, decision, texts, resetSeconds(limit, remaining, rate));
      return headers;
    }
    shown.allowed = decision.allowed;
    shown.code = decision.code;
    shown.dryRun = decision.dryRun;
    shown.app = app;
    shown.cost = decision.cost;
    shown.remaining = remaining;
    shown.limit = limit;
    shown.retryAfterMs = decision.retryAfterMs;
    shown.limitName = decision.limitName;
    shown.rate = rate;
    shown.texts = texts;
    startShowing(shown);
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i]!;
      const known = textsOfLimits[i] ?? NO_TEXTS;
      const isKnown = known.unit === limit.unit && isOf(known, limit.name, limit.limit, limit.rate);
      showLimit(shown, limit, isKnown ? known : textsOfLimit(limit.name, limit.limit, limit.rate, limit.unit));
    }
    writeLimits(write, headers, shown);
    return headers;
  };
}
