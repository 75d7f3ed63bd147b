/**
 * Values of limits: their balances and records are in shared memory, each worker has accounts of those that it uses. Their
 * number is limited. An idle value is released: its tokens are returned, then its entries are deleted.
 */

import type { AppLimits } from "../../../core/app-limits.js";
import { standardProfile } from "../../../core/cost.js";
import { cutText } from "../../../core/platform.js";
import { activate } from "../../../engine/node.js";
import {
  isOverflow,
  type LimitMatch,
  type LimitRule,
  limitOfBucket,
  overflowId,
} from "../../../limit-rules/limit-rules.js";
import { newCounts } from "../counts.js";
import { nowMs } from "../host.js";
import { luaString } from "../library.js";
import { overflowBucket, ruleOfName } from "../limit-matches.js";
import { readAccount } from "./records.js";
import { valueCell } from "./shared-cell.js";
import {
  allowanceKeys,
  balanceKey,
  newPlaneAccount,
  type PlaneAccount,
  type PlaneNode,
  refundsKey,
  worker,
} from "./state.js";

/** A list of all values: `id balance since`, where `since` is when the balance was first seen. */
export const VALUES = "values";
/** Values that clients choose. */
const COUNT = "value count";
/** How often there was no room for a value. */
export const OVERFLOWED = "values overflowed";

/** Values do not count for decisions of apps. */
const counts = newCounts();
const BALANCE_PREFIX = balanceKey("").length;

type ValueOfRule = Pick<LimitMatch, "rule" | "id">;

/** The account of a value; if there is no room for another one, that of further values of clients like the current one. */
export function valueAccount(this: void, { rule, id }: ValueOfRule): PlaneAccount {
  const own = enterValue(rule, id);
  if (own !== undefined) return own;
  worker.dict.incr(OVERFLOWED, 1, 0);
  return enterValue(rule, overflowBucket(rule.name)) ?? worker.byId[overflowId(rule.name)]!;
}

/** Undefined if there is no room. */
function enterValue(rule: LimitRule, id: string): PlaneAccount | undefined {
  const known = worker.byId[id];
  if (known !== undefined && !known.leaving) {
    // The time of the last tick.
    known.usedAt = known.node.clock;
    return known;
  }
  if (!createEntry(id, isCounted(id))) return undefined;
  const account = known ?? loadValue(id, rule);
  if (known !== undefined) readAccount(known);
  account.usedAt = nowMs();
  account.leaving = false;
  return account;
}

/** As `valueAccount`, for an exchange of a value that was released meanwhile. */
export function valueAgain({ limits }: PlaneAccount): PlaneAccount {
  const { id } = limits;
  return valueAccount({ rule: ruleOfName(limitOfBucket(id))!, id });
}

/** The account was released while the request waited: it is used again. */
export function keepValue(account: PlaneAccount): void {
  if (!account.leaving || !account.isValue) return;
  createEntry(account.limits.id, false);
  account.leaving = false;
}

/** False if there is no room. `counted`: clients choose the value. */
function createEntry(id: string, counted: boolean): boolean {
  const { dict, options } = worker;
  const key = balanceKey(id);
  if (counted && dict.get(key) === undefined && valueCount() >= options.maxValues) return false;
  const [added, problem] = dict.safe_add(key, 0);
  if (added !== true) return problem === "exists";
  if (dict.lpush(VALUES, `${id} - ${luaString.format("%.0f", nowMs())}`) === undefined) {
    dict.delete(key);
    return false;
  }
  if (isCounted(id)) dict.incr(COUNT, 1, 0);
  return true;
}

function isCounted(id: string): boolean {
  if (isOverflow(id)) return false;
  const rule = ruleOfName(limitOfBucket(id));
  return rule === undefined || rule.hasFreeValues;
}

export function valueCount(): number {
  return (worker.dict.get(COUNT) as number | undefined) ?? 0;
}

/** For a charge of a value that was released meanwhile. */
function createAgain(this: void, key: string): void {
  createEntry(cutText(key, BALANCE_PREFIX, key.length), false);
}

/** The account of a value that has entries in shared memory. */
export function loadValue(id: string, rule: LimitRule | undefined): PlaneAccount {
  const cell = valueCell(worker.dict, balanceKey(id), createAgain);
  const limits = rule === undefined ? formerLimits(id) : { ...rule.limits, id };
  const account = newPlaneAccount(limits, nowMs(), { cell, counts });
  worker.byId[id] = account;
  readAccount(account);
  return account;
}

/** Of a limit that is no longer configured. It admits nothing; only its counters and tokens matter. */
export function formerLimits(id: string): AppLimits {
  const limits: AppLimits = {
    id,
    guaranteed: 0,
    burst: 0,
    priority: 0,
    borrow: false,
    profile: standardProfile,
    onStoreFailure: "closed",
    dryRun: false,
  };
  if (limitOfBucket(id) !== "") limits.fillSeconds = 1;
  return limits;
}

/** Recalled values that only other workers have used. `*` stands for all. */
export function loadRecalled(recalled: string[]): void {
  for (const id of recalled) {
    if (luaString.sub(id, 1, 1) === "*") {
      loadAll();
      return;
    }
    const name = limitOfBucket(id);
    if (name !== "" && worker.byId[id] === undefined && worker.dict.get(balanceKey(id)) !== undefined) {
      loadValue(id, ruleOfName(name));
    }
  }
}

/** This worker handles something that concerns all values, also those that only others have used. */
export function loadAll(): void {
  const { dict, byId } = worker;
  const length = dict.llen(VALUES) ?? 0;
  for (let i = 0; i < length; i++) {
    const element = dict.rpop(VALUES) as string | undefined;
    if (element === undefined) return;
    dict.lpush(VALUES, element);
    const id = cutText(element, 0, luaString.find(element, " ", 1, true)! - 1);
    if (byId[id] === undefined && dict.get(balanceKey(id)) !== undefined) loadValue(id, ruleOfName(limitOfBucket(id)));
  }
}

/**
 * Everything about these accounts was reported. Deletes the entries of those that this worker releases, and returns them.
 * Called with the lock. A charge of another worker that arrives between reading and deleting the balance is lost.
 */
export function deleteDeparted(node: PlaneNode): PlaneAccount[] {
  const deleted: PlaneAccount[] = [];
  for (const account of node.departed) {
    if (account.isValue && account.leaving) {
      if (account.releasing && deleteEntries(account)) deleted.push(account);
      drop(account);
    }
  }
  return deleted;
}

function deleteEntries(account: PlaneAccount): boolean {
  const { dict } = worker;
  const { limits, cell, refunds, recordKey, refusedUntilKey } = account;
  const { id } = limits;
  if (cell.get() !== 0 || refunds.get() !== 0) {
    account.leaving = false;
    activate(account.node, account);
    return false;
  }
  dict.delete(balanceKey(id));
  dict.delete(recordKey);
  dict.delete(refusedUntilKey);
  dict.delete(refundsKey(id));
  for (const key of allowanceKeys(id)) dict.delete(key);
  account.releasing = false;
  if (isCounted(id)) dict.incr(COUNT, -1, 0);
  return true;
}

/** Removes the account from the lists of this worker, unless it is needed. */
export function drop(account: PlaneAccount): boolean {
  const { active, urgent, waiters, releasing, node, place, limits } = account;
  if (active || urgent || releasing || waiters.length > 0) return false;
  const { accounts } = node;
  const last = accounts[accounts.length - 1]!;
  accounts[place] = last;
  last.place = place;
  (accounts as (PlaneAccount | undefined)[])[accounts.length - 1] = undefined;
  worker.byId[limits.id] = undefined;
  return true;
}
