/** Values of limits in this worker. Their number is limited; idle ones are released after their tokens were returned. */
import { type LimitRule, limitOfBucket, overflowId } from "../../../descriptors/limit-rules.js";
import { leaveNode } from "../../../engine/limits.js";
import { ruleOfName } from "../../lua/limit-matches.js";
import { nowMs } from "../clock.js";
import { addAccount, type EnvoyAccount, worker } from "../state.js";

interface Values {
  /** Those that clients choose. */
  count: number;
  sweptAt: number;
  /** Where the last sweep ended. */
  at: number;
  /** There was no room for a value since the last sweep. */
  full: boolean;
}

const values: Values = { count: 0, sweptAt: 0, at: 0, full: false };

const SWEEP_MS = 1000;
const FULL_SWEEP_MS = 100;
/** At most this many accounts are examined at a time. */
const MOST_LOOKS = 500;
/** A value is released after this time without use, sooner if many are in use, and almost at once if there was no room. */
const IDLE_MS = 300000;
const CROWDED_IDLE_MS = 60000;
const FULL_IDLE_MS = 1000;
const CROWDED = 0.8;

/** The account of a value; that of all further values of the limit if there is no room for another one. */
export function valueAccount(this: void, rule: LimitRule, id: string): EnvoyAccount {
  const known = worker.byId[id];
  if (known !== undefined) {
    // The time of the last request, or some time ago on another shard.
    known.usedAt = known.node.clock;
    known.leaving = false;
    return known;
  }
  const now = nowMs();
  const { hasFreeValues, name, limits } = rule;
  if (hasFreeValues && values.count >= worker.options.maxValues) {
    values.full = true;
    const shared = overflowId(name);
    return worker.byId[shared] ?? addAccount({ ...limits, id: shared }, now, false);
  }
  if (hasFreeValues) values.count = values.count + 1;
  return addAccount({ ...limits, id }, now, hasFreeValues);
}

/** The account of a finished exchange. A value that was released meanwhile is used again. */
export function currentAccount(account: EnvoyAccount): EnvoyAccount {
  const { id } = account.limits;
  if (!account.isValue || worker.byId[id] === account) return account;
  return valueAccount(ruleOfName(limitOfBucket(id))!, id);
}

/** Everything about the account was reported. */
export function drop(account: EnvoyAccount): void {
  const { active, urgent, leaving, node, place, limits } = account;
  if (active || urgent || !leaving) return;
  const { accounts } = node;
  const last = accounts[accounts.length - 1]!;
  accounts[place] = last;
  last.place = place;
  (accounts as (EnvoyAccount | undefined)[])[accounts.length - 1] = undefined;
  worker.byId[limits.id] = undefined;
  values.count = values.count - 1;
}

/** To be called for each request that has limits. */
export function sweepIfDue(now: number): void {
  if (now - values.sweptAt >= (values.full ? FULL_SWEEP_MS : SWEEP_MS) || now < values.sweptAt) sweep(now);
}

/** Examines some of the values in turn. Their tokens are returned with the next message. */
function sweep(now: number): void {
  values.sweptAt = now;
  const crowded = values.full || values.count > worker.options.maxValues * CROWDED;
  const idleMs = values.full ? FULL_IDLE_MS : crowded ? CROWDED_IDLE_MS : IDLE_MS;
  values.full = false;
  // While the store does not answer, nothing can be returned, and what was spent without it must be remembered.
  for (const { failuresInARow } of worker.nodes) if (failuresInARow > 0) return;
  for (const { accounts } of worker.nodes) {
    for (let i = 0; i < MOST_LOOKS && i < accounts.length; i++) {
      values.at = values.at + 1;
      const account = accounts[values.at - Math.floor(values.at / accounts.length) * accounts.length]!;
      if (account.isValue && now - account.usedAt >= idleMs) release(account);
    }
  }
}

function release(account: EnvoyAccount): void {
  const { node, lease, sync, cell, refunds, waiters, active, urgent } = account;
  if (waiters.length > 0) return;
  // The store knows nothing of most values: the service paid for their requests.
  const isReported = lease.granted === 0 && cell.get() === 0 && refunds.get() === 0 && !sync.unanswered;
  if (!isReported) leaveNode(node, account);
  account.leaving = true;
  if (isReported && !active && !urgent) drop(account);
}
