/** Releases idle values of limits: one worker looks at some of the list in turn, sooner if there is little room. */
import { splitText, storedNumber } from "../../../core/platform.js";
import { evictionOf, FULL_SWEEP_MS, SWEEP_MS } from "../../../engine/eviction.js";
import { urge } from "../../../engine/node.js";
import { limitOfBucket } from "../../../limit-rules/limit-rules.js";
import { luaString } from "../library.js";
import { ruleOfName } from "../limit-matches.js";
import { balanceKey, type PlaneAccount, worker } from "./state.js";
import { drop, loadValue, OVERFLOWED, VALUES, valueCount } from "./values.js";

const SWEEP = "sweep";
const OVERFLOWED_AT_SWEEP = "values overflowed before";
/** Every value is looked at once in this time, … */
const ROUND_MS = 30000;
/** … at most this many at a time. */
const MOST_LOOKS = 2000;

/** Accounts that this worker releases. */
const releasing: { list: PlaneAccount[] } = { list: [] };

export function sweepValues(now: number): void {
  const { dict } = worker;
  forgetUnused(now);
  takeBack();
  const length = dict.llen(VALUES) ?? 0;
  if (length === 0) return;
  const overflowed = (dict.get(OVERFLOWED) as number | undefined) ?? 0;
  const hadNoRoom = overflowed !== ((dict.get(OVERFLOWED_AT_SWEEP) as number | undefined) ?? 0);
  const [mine] = dict.safe_add(SWEEP, 1, (hadNoRoom ? FULL_SWEEP_MS : SWEEP_MS) / 1000);
  if (mine !== true) return;
  dict.safe_set(OVERFLOWED_AT_SWEEP, overflowed);
  // While the store does not answer, nothing can be returned, and what was spent without it must be remembered.
  for (const { failuresInARow } of worker.nodes) if (failuresInARow > 0) return;
  const use = { count: valueCount(), most: worker.options.maxValues, hadNoRoom, oldestFirst: false };
  const { idleMs, surplus, surplusIdleMs } = evictionOf(use);
  const looks = surplus > 0 ? length : Math.ceil((length * SWEEP_MS) / ROUND_MS);
  let left = surplus - releasing.list.length;
  for (let i = 0; i < Math.min(looks, MOST_LOOKS); i++) {
    const element = dict.rpop(VALUES) as string | undefined;
    if (element === undefined) return;
    if (look(element, now, left > 0 ? surplusIdleMs : idleMs)) left = left - 1;
  }
}

/** True if the value is released. Otherwise it stays in the list, unless it was deleted. */
function look(element: string, now: number, idleMs: number): boolean {
  const { dict } = worker;
  const words = splitText(element, " ");
  const id = words[0]!;
  const balance = dict.get(balanceKey(id)) as number | undefined;
  if (balance === undefined) return false;
  const seen = luaString.format("%.0f", balance);
  const rule = ruleOfName(limitOfBucket(id));
  const idle = now - storedNumber(words[2] ?? false, now);
  if (rule !== undefined && seen !== words[1]) {
    dict.lpush(VALUES, `${id} ${seen} ${luaString.format("%.0f", now)}`);
    return false;
  }
  const known = worker.byId[id];
  const isBusy = known !== undefined && (known.waiters.length > 0 || known.releasing);
  if (isBusy || (rule !== undefined && idle >= 0 && idle < idleMs)) {
    dict.lpush(VALUES, element);
    return false;
  }
  const account = known ?? loadValue(id, rule);
  account.leaving = true;
  account.releasing = true;
  releasing.list.push(account);
  urge(account.node, account);
  return true;
}

/** Values that are used again while they are released return to the list. */
function takeBack(): void {
  if (releasing.list.length === 0) return;
  const staying: PlaneAccount[] = [];
  for (const account of releasing.list) {
    if (account.releasing && !account.leaving) {
      account.releasing = false;
      worker.dict.lpush(VALUES, `${account.limits.id} - 0`);
    }
    if (account.releasing) staying.push(account);
  }
  releasing.list = staying;
}

/** Accounts of one shard that are examined at a time. */
const LOOKS_AT_ACCOUNTS = 100;
/** This worker forgets an account that it has not used for this long. The value stays in shared memory. */
const FORGET_MS = 60000;
const position = { at: 0 };

/** In each worker: it has no use for accounts of values that it does not use. */
export function forgetUnused(now: number): void {
  for (const { accounts } of worker.nodes) {
    for (let i = 0; i < LOOKS_AT_ACCOUNTS && i < accounts.length; i++) {
      position.at = position.at + 1;
      const account = accounts[position.at - Math.floor(position.at / accounts.length) * accounts.length]!;
      if (account.isValue && isForgettable(account, now)) drop(account);
    }
  }
}

function isForgettable({ leaving, usedAt, cell, lease }: PlaneAccount, now: number): boolean {
  if (leaving) return lease.granted === 0 && cell.get() === 0;
  return now - usedAt >= FORGET_MS || now < usedAt;
}
