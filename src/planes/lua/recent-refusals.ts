/** Recent refusals with reason and numbers, until they are reported: a few per app and second, as lines of text (docs/API.md). */
import { knownMethod } from "../../core/cost.js";
import type { Outcome } from "../../engine/account.js";
import { remainingTokens } from "../../engine/remaining.js";
import type { PlaneExchange } from "./exchange.js";
import { luaString } from "./library.js";

/** Maximum in one batch. */
export const MAX_REFUSALS = 64;
const PER_APP = 3;
const PERIOD_MS = 1000;

/** How many refusals of an app were recorded in the current period. */
export interface Recorded {
  since: number;
  refusals: number;
}

/** `now` is the clock of the plane in milliseconds. */
export const recent: { lines: string[]; now: (this: void) => number } = { lines: [], now: () => 0 };

export function newRecorded(): Recorded {
  return { since: 0, refusals: 0 };
}

type Refused = Pick<PlaneExchange, keyof Outcome | "limitName" | "limited" | "outcomes">;

/** Also for refusals that a dry run admits. */
export function recordRefusal(exchange: Refused, recorded: Recorded): void {
  const now = recent.now();
  const elapsed = now - recorded.since;
  if (elapsed < 0 || elapsed >= PERIOD_MS) {
    recorded.since = now;
    recorded.refusals = 0;
  }
  if (recorded.refusals >= PER_APP || recent.lines.length >= MAX_REFUSALS) return;
  recorded.refusals = recorded.refusals + 1;
  recent.lines.push(refusalLine(exchange, now));
}

/** The outcome of the limit that refused; that of the app if it was none, or if the request is invalid. */
function refusedOutcome(exchange: Refused): Outcome {
  const { limited, limitName, outcomes } = exchange;
  if (limited && limitName !== "") {
    for (const outcome of outcomes) if (outcome.rule !== undefined && outcome.rule.name === limitName) return outcome;
  }
  return exchange;
}

/** Unknown methods have one name: clients choose them. */
function refusalLine(exchange: Refused, at: number): string {
  const { account: app, method, code, retryAfterMs, source, allowed, limitName } = exchange;
  const { account, cost, balance } = refusedOutcome(exchange);
  const name = knownMethod(method);
  return luaString.format(
    "#refused %s %.0f %s %s %.0f %.0f %.0f %.0f %.0f %s %d%s\n",
    app.limits.id,
    Math.floor(at),
    code,
    name === "other" ? "OTHER" : name,
    cost,
    Math.floor(balance),
    remainingTokens(account, balance, at),
    account.sync.limit,
    Math.max(Math.ceil(retryAfterMs), 0),
    source,
    allowed ? 1 : 0,
    limitName === "" ? "" : ` ${limitName}`,
  );
}

/** Removes and returns the recorded lines. */
export function takeRefusals(): string[] {
  const { lines } = recent;
  if (lines.length > 0) recent.lines = [];
  return lines;
}
