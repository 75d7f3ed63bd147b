/** Changes of an account's limits: reconfiguration, emergencies, and accounts that leave the node. */
import { QUOTA_EXHAUSTED } from "../core/codes.js";
import { emergencyRatio } from "../core/emergency.js";
import { cutLease, returnAll } from "../core/lease.js";
import { type Account, notShortAt } from "./account.js";
import { type NodeState, urge } from "./node.js";
import { changeLimit } from "./remaining.js";

/** Returns the tokens above `limit` with the next message. */
export function cutTo({ lease, cell }: Account, limit: number): void {
  const extra = cell.get() - limit;
  if (extra <= 0) return;
  cell.add(-extra);
  lease.returned = lease.returned + extra;
}

/** New limits or options apply to an account: excess tokens are returned and what followed from the old ones is dropped. */
export function refit(node: NodeState, account: Account, now: number): void {
  const { lease, sync } = account;
  const { timeoutMs } = node.options;
  changeLimit(account, node.emergency, now);
  cutTo(account, sync.limit);
  lease.refusedUntil = 0;
  sync.firstOnly = false;
  sync.refusedAll = false;
  sync.shortAt = notShortAt(now);
  sync.retryAt = 0;
  sync.shortCode = QUOTA_EXHAUSTED;
  for (const waiter of account.waiters) {
    // A reply that is on its way was made for the old limits: it does not count for this waiter.
    waiter.inMessage = false;
    waiter.shortReplies = 0;
    waiter.deadline = Math.min(waiter.deadline, now + timeoutMs);
  }
  if (lease.returned !== sync.reportedReturned) urge(node, account);
}

/** The account is no longer configured, or its descriptor limit is unused: its tokens are returned. */
export function leaveNode(node: NodeState, account: Account): void {
  account.leaving = true;
  returnAll(account.lease, account.syncCell);
  urge(node, account);
}

/** Starts or ends an emergency. Cached refusals no longer hold; leases are cut at once. Returns the changed accounts. */
export function setEmergency<A extends Account>(
  node: NodeState<A>,
  accounts: readonly A[],
  active: boolean,
  now: number,
): A[] {
  const changed: A[] = [];
  node.emergency = active;
  for (const account of accounts) {
    const { lease, limits, syncCell } = account;
    const holds = syncCell.get() > 0;
    const isReduced = changeLimit(account, active, now);
    if (lease.refusedUntil !== 0 || holds || isReduced) changed.push(account);
    lease.refusedUntil = 0;
    if (active && holds) {
      cutLease(lease, syncCell, emergencyRatio(limits.priority));
      urge(node, account);
    }
  }
  return changed;
}
