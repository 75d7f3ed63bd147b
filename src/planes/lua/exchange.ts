/** What exchanges of nginx and Envoy have in common. */
import type { PlaneRoute } from "../../config/options/plane-options.js";
import type { Account } from "../../engine/account.js";
import type { LimitedRequest } from "../../engine/limited-request.js";

/**
 * Its tables are reused, and no field is ever unset: assigning nil to a missing field of a Lua table that is full makes LuaJIT
 * allocate the table anew, for every request.
 */
export interface PlaneExchange<A extends Account = Account> extends LimitedRequest<A> {
  /** The options of its route; `noRoute` if it has none of its own. */
  route: PlaneRoute;
  /** The cost that the backend has stated, or INVALID_COST. */
  reportedCost: number;
}

export const noRoute: PlaneRoute = {};
