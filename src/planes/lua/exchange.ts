/** What exchanges of nginx and Envoy have in common. */
import type { PlaneRoute } from "../../config/options/plane-options.js";
import type { Account, Outcome } from "../../engine/account.js";
import { startDecision } from "../../engine/decide.js";
import type { MatchedLimits } from "../../limit-rules/limit-rules.js";

/**
 * The outcome of the exchange itself is that of its app, until `endLimits`. Its tables are reused, and no field is ever
 * unset: assigning nil to a missing field of a Lua table that is full makes LuaJIT allocate the table anew, for every request.
 */
export interface PlaneExchange extends Outcome {
  /** The options of its route; `noRoute` if it has none of its own. */
  route: PlaneRoute;
  /** The cost that the backend has stated, or INVALID_COST. */
  reportedCost: number;
  /** The limit that refused it, or would have in a dry run; empty if it was none. */
  limitName: string;
  /** Limits besides that of its app apply. Only then the following fields are valid. */
  limited: boolean;
  /** First the exchange, then an outcome per limit. Undefined before the first request that has limits. */
  outcomes: Outcome[] | undefined;
  /** The limits that apply. Undefined before the first request that could have some. */
  matched: MatchedLimits | undefined;
  /** The code of the app's own outcome. */
  appCode: string;
  /** Some of its limits count by cost. */
  settlesLimits: boolean;
}

export const noRoute: PlaneRoute = {};

/** `exchange.route` is set. */
export function startExchange(exchange: PlaneExchange, account: Account, method: string): void {
  startDecision(exchange, account, method, exchange.route.profile);
  exchange.limitName = "";
  exchange.limited = false;
}
