/** Shows the decision about an exchange of a Lua plane with the functions of `core/refusals.ts`. */
import { unidentified } from "../../core/refusals.js";
import {
  type ClientDecision,
  type HeaderWriter,
  type LimitTexts,
  type LimitView,
  limitTexts,
  resetSeconds,
  type ShownDecision,
  showLimit,
  startShowing,
  writeLimits,
} from "../../core/response-headers.js";
import type { Outcome } from "../../engine/account.js";
import { remainingTokens } from "../../engine/decide.js";
import type { PlaneExchange } from "./exchange.js";

/** Reused for every request: use it before the request waits for anything. */
const shown = { limits: [] as LimitView[], textsOfLimits: [] as LimitTexts[] } as ShownDecision;

function clientDecision(exchange: PlaneExchange): ShownDecision {
  const { limits, sync } = exchange.account;
  shown.allowed = exchange.allowed;
  shown.code = exchange.code;
  shown.dryRun = limits.dryRun;
  shown.app = limits.id;
  shown.cost = exchange.cost;
  shown.remaining = remainingTokens(exchange.account, exchange.balance);
  shown.limit = sync.limit;
  shown.retryAfterMs = exchange.retryAfterMs;
  shown.limitName = exchange.limitName;
  shown.rate = limits.guaranteed;
  shown.texts = textsOf(textsByApp, limits.id, sync.limit, limits.guaranteed);
  return shown;
}

interface KnownTexts extends LimitTexts {
  limit: number;
}

interface TextsByName {
  [name: string]: KnownTexts | undefined;
}

/** The rate of an app or limit changes only with a new configuration, in a new Lua state. */
const textsByApp: TextsByName = {};
const textsByLimit: TextsByName = {};

function textsOf(known: TextsByName, name: string, limit: number, rate: number): LimitTexts {
  let texts = known[name];
  if (texts === undefined || texts.limit !== limit) {
    texts = limitTexts(name, limit, rate) as KnownTexts;
    texts.limit = limit;
    known[name] = texts;
  }
  return texts;
}

/** Adds the headers of the decision to a response. */
export function showExchange<T>(write: HeaderWriter<T>, target: T, exchange: PlaneExchange): ClientDecision {
  const decision = clientDecision(exchange);
  if (!exchange.limited) {
    const { texts, limit, remaining, rate } = decision;
    write(target, decision, texts, resetSeconds(limit, remaining, rate));
  } else {
    addLimits(decision, exchange.outcomes!, exchange.matched!.count);
    writeLimits(write, target, decision);
  }
  return decision;
}

function addLimits(decision: ShownDecision, outcomes: Outcome[], count: number): void {
  startShowing(decision);
  for (let i = 0; i < count; i++) {
    const { account, cost, balance, rule } = outcomes[i + 1]!;
    const { name, limits } = rule!;
    const view = decision.limits[i] ?? ({} as LimitView);
    view.name = name;
    view.cost = cost;
    view.remaining = remainingTokens(account, balance);
    view.limit = account.sync.limit;
    view.rate = limits.guaranteed;
    view.dryRun = limits.dryRun;
    showLimit(decision, view, textsOf(textsByLimit, name, view.limit, view.rate));
  }
}

const noTexts = limitTexts("", 0, 0);

/** The same for a request that belongs to no app. */
export function showUnidentified<T>(write: HeaderWriter<T>, target: T, code: string): ClientDecision {
  const decision = unidentified(code);
  write(target, decision, noTexts, 0);
  return decision;
}
