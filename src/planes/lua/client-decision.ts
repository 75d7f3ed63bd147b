/** Shows the decision about an exchange of a Lua plane with the functions of `core/refusals.ts`. */
import { unidentified } from "../../core/refusals.js";
import {
  type ClientDecision,
  type HeaderWriter,
  type LimitTexts,
  type LimitView,
  limitTexts,
  REQUESTS,
  resetSeconds,
  type ShownDecision,
  showLimit,
  startShowing,
  TOKENS,
  writeLimits,
} from "../../core/response-headers.js";
import type { SyncState } from "../../engine/account.js";
import { remainingTokens } from "../../engine/remaining.js";
import type { PlaneExchange } from "./exchange.js";

/** Reused for every request: use it before the request waits for anything. */
const shown = { limits: [] as LimitView[], textsOfLimits: [] as LimitTexts[] } as ShownDecision;

function clientDecision(exchange: PlaneExchange, now: number): ShownDecision {
  const { limits, sync } = exchange.account;
  shown.allowed = exchange.allowed;
  shown.code = exchange.code;
  shown.dryRun = limits.dryRun;
  shown.app = limits.id;
  shown.cost = exchange.cost;
  shown.remaining = remainingTokens(exchange.account, exchange.balance, now);
  shown.limit = sync.limit;
  shown.retryAfterMs = exchange.retryAfterMs;
  shown.limitName = exchange.limitName;
  shown.rate = sync.rate;
  shown.texts = textsOf(textsByApp, limits.id, sync, TOKENS);
  return shown;
}

interface KnownTexts extends LimitTexts {
  limit: number;
  rate: number;
}

interface TextsByName {
  [name: string]: KnownTexts | undefined;
}

/** Limit and rate change with a sync; what a limit counts, only with a new configuration, in a new Lua state. */
const textsByApp: TextsByName = {};
const textsByLimit: TextsByName = {};

function textsOf(known: TextsByName, name: string, { limit, rate }: SyncState, unit: string): LimitTexts {
  let texts = known[name];
  if (texts === undefined || texts.limit !== limit || texts.rate !== rate) {
    texts = limitTexts(name, limit, rate, unit) as KnownTexts;
    texts.limit = limit;
    texts.rate = rate;
    known[name] = texts;
  }
  return texts;
}

/** Adds the headers of the decision to a response. */
export function showExchange<T>(
  write: HeaderWriter<T>,
  target: T,
  exchange: PlaneExchange,
  now: number,
): ClientDecision {
  const decision = clientDecision(exchange, now);
  if (!exchange.limited) {
    const { texts, limit, remaining, rate } = decision;
    write(target, decision, texts, resetSeconds(limit, remaining, rate));
  } else {
    addLimits(decision, exchange, now);
    writeLimits(write, target, decision);
  }
  return decision;
}

function addLimits(decision: ShownDecision, { outcomes, matched }: PlaneExchange, now: number): void {
  const { count } = matched;
  startShowing(decision);
  for (let i = 0; i < count; i++) {
    const { account, cost, balance, rule } = outcomes[i + 1]!;
    const { name, limits, countsCost } = rule!;
    const { sync } = account;
    const view = decision.limits[i] ?? ({} as LimitView);
    view.name = name;
    view.cost = cost;
    view.remaining = remainingTokens(account, balance, now);
    view.limit = sync.limit;
    view.rate = sync.rate;
    view.unit = countsCost ? TOKENS : REQUESTS;
    view.dryRun = limits.dryRun;
    showLimit(decision, view, textsOf(textsByLimit, name, sync, view.unit));
  }
}

const noTexts = limitTexts("", 0, 0, TOKENS);

/** The same for a request that belongs to no app. */
export function showUnidentified<T>(write: HeaderWriter<T>, target: T, code: string): ClientDecision {
  const decision = unidentified(code);
  write(target, decision, noTexts, 0);
  return decision;
}
