/** Decides about the current request: who pays, which limits apply, and whether it is admitted. */
import type { PlaneRoute } from "../../../config/options/plane-options.js";
import { INVALID_COST } from "../../../core/cost.js";
import type { IdentityClaims } from "../../../core/identity.js";
import { countDecisionTime, decisionWeight } from "../decision-times.js";
import { noRoute } from "../exchange.js";
import { identifiedApp, isKnownUser } from "../identity.js";
import { hasLimits, matchRequest, type Sender } from "../limit-matches.js";
import { systemNowMs } from "../system-clock.js";
import type { Exchange } from "./exchanges.js";
import { check, checkLimits } from "./limiter.js";
import { type PlaneAccount, worker } from "./state.js";

/** The account that pays, or the code of the refusal. */
export function payerOf(claims: IdentityClaims): PlaneAccount | string {
  return usualApp(claims) ?? identifiedApp(worker, claims);
}

/** A shortcut for `identify`: a trusted hop names a configured app, whose id is known to be valid. */
function usualApp(claims: IdentityClaims): PlaneAccount | undefined {
  if (!claims.hopTrusted || claims.appHeaderCount !== 1 || claims.userHeaderCount > 1) return undefined;
  if (claims.userHeaderCount === 1 && !isKnownUser(claims.userHeader)) return undefined;
  return worker.apps[claims.appHeader];
}

/** Reused for every request. */
const sender = {} as Sender;

/**
 * Finds the limits besides that of the app that apply to the current request. Before anything waits: the head belongs to the
 * current request only until then.
 */
export function findLimitsOf(exchange: Exchange, app: string, claims: IdentityClaims, method: string): void {
  exchange.limited = false;
  if (!hasLimits()) return;
  const { hopTrusted, userHeader, userHeaderCount } = claims;
  sender.app = app;
  sender.user = userHeaderCount === 1 ? userHeader : "";
  sender.hopTrusted = hopTrusted;
  const { matched } = exchange;
  matchRequest(matched, sender, method);
  exchange.limited = matched.invalid !== "" || matched.count > 0;
}

export function routeOf(name: string | undefined): PlaneRoute {
  return name === undefined ? noRoute : (worker.options.routes[name] ?? noRoute);
}

/** Decides about the exchange, whose limits were found and whose route is set. May wait for the service. */
export function decideExchange(exchange: Exchange, app: PlaneAccount, method: string, length: number): void {
  const { limited } = exchange;
  exchange.reportedCost = INVALID_COST;
  const weight = decisionWeight();
  const startedMs = weight > 0 ? systemNowMs() : 0;
  if (limited) checkLimits(exchange, app, method, length);
  else check(exchange, app, method, length);
  if (weight > 0) countDecisionTime(exchange, weight, startedMs, systemNowMs());
}
