/** Shows the decision about an exchange of a Lua plane with the functions of `core/refusals.ts`. */
import {
  type ClientDecision,
  type HeaderWriter,
  type LimitTexts,
  type LimitView,
  limitTexts,
  resetSeconds,
  unidentified,
  writeLimits,
} from "../../core/refusals.js";
import { remainingTokens } from "../../engine/decide.js";
import type { PlaneExchange } from "./exchange.js";

/** Reused for every request: use it before the request waits for anything. */
const shown = {} as ClientDecision;

function clientDecision(exchange: PlaneExchange): ClientDecision {
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
  if (exchange.limited) return writeLimits(write, target, decision, viewsOf(exchange));
  const { app, limit, remaining } = decision;
  const rate = exchange.account.limits.guaranteed;
  write(target, decision, textsOf(textsByApp, app, limit, rate), resetSeconds(limit, remaining, rate));
  return decision;
}

/** First that of the app. */
function viewsOf({ rules, outcomes }: PlaneExchange): LimitView[] {
  const views: LimitView[] = [];
  for (let i = 0; i < outcomes.length; i++) {
    const { account, cost, balance } = outcomes[i]!;
    const { id, guaranteed: rate, dryRun } = account.limits;
    const { limit } = account.sync;
    const name = i === 0 ? id : rules[i - 1]!.name;
    const texts = textsOf(i === 0 ? textsByApp : textsByLimit, name, limit, rate);
    views.push({ name, cost, remaining: remainingTokens(account, balance), limit, rate, dryRun, texts });
  }
  return views;
}

const noTexts: LimitTexts = { limitText: "0", policy: "", remainingPrefix: "" };

/** The same for a request that belongs to no app. */
export function showUnidentified<T>(write: HeaderWriter<T>, target: T, code: string): ClientDecision {
  const decision = unidentified(code);
  write(target, decision, noTexts, 0);
  return decision;
}
