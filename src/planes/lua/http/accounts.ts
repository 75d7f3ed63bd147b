/** The accounts of a Lua plane, as the engine uses them: all workers share the balances, and values are released and come back. */
import { catchUp } from "./changes.js";
import { readRefusedUntil } from "./records.js";
import { type PlaneAccount, worker } from "./state.js";
import { keepValue, valueAccount, valueAgain } from "./values.js";

/** The part of the host that all proxies have in common. */
export const accountFunctions = { valueAccount, currentAccount, refresh, refunded };

/** A value may have been released while the exchange was open. */
function currentAccount(this: void, account: PlaneAccount): PlaneAccount {
  if (!account.isValue) return account;
  const current = worker.byId[account.limits.id];
  return current !== undefined && !current.leaving ? current : valueAgain(account);
}

/** Reads what other workers know about the account. */
function refresh(this: void, account: PlaneAccount): void {
  catchUp(account.node);
  readRefusedUntil(account);
  keepValue(account);
}

function refunded(this: void, account: PlaneAccount): void {
  worker.dict.delete(account.refusedUntilKey);
}
