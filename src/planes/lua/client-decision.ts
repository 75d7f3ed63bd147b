/** Shows the decision about an exchange of a Lua plane with the functions of `core/refusals.ts`. */
import {
  type ClientDecision,
  type HeaderWriter,
  type LimitTexts,
  limitTexts,
  resetSeconds,
  unidentified,
} from "../../core/refusals.js";
import type { Outcome } from "../../engine/account.js";

/** Reused for every request: use it before the request waits for anything. */
const shown = {} as ClientDecision;

function clientDecision(exchange: Outcome): ClientDecision {
  const { limits, sync } = exchange.account;
  shown.allowed = exchange.allowed;
  shown.code = exchange.code;
  shown.dryRun = limits.dryRun;
  shown.app = limits.id;
  shown.cost = exchange.cost;
  shown.remaining = Math.min(Math.max(exchange.balance, 0) + sync.remaining, sync.limit);
  shown.limit = sync.limit;
  shown.retryAfterMs = exchange.retryAfterMs;
  return shown;
}

interface KnownTexts extends LimitTexts {
  limit: number;
}

/** By app id. The rate of an app changes only with a new configuration, in a new Lua state. */
const limitTextsByApp: { [app: string]: KnownTexts | undefined } = {};

/** Adds the headers of the decision to a response. */
export function showExchange<T>(write: HeaderWriter<T>, target: T, exchange: Outcome): ClientDecision {
  const decision = clientDecision(exchange);
  const { app, limit, remaining } = decision;
  const rate = exchange.account.limits.guaranteed;
  let texts = limitTextsByApp[app];
  if (texts === undefined || texts.limit !== limit) {
    texts = limitTexts(app, limit, rate) as KnownTexts;
    texts.limit = limit;
    limitTextsByApp[app] = texts;
  }
  write(target, decision, texts, resetSeconds(limit, remaining, rate));
  return decision;
}

const noTexts: LimitTexts = { limitText: "0", policy: "", remainingPrefix: "" };

/** The same for a request that belongs to no app. */
export function showUnidentified<T>(write: HeaderWriter<T>, target: T, code: string): ClientDecision {
  const decision = unidentified(code);
  write(target, decision, noTexts, 0);
  return decision;
}
