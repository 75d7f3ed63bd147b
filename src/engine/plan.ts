/** Plans sync messages: which accounts are due, and what the message reports and asks for each of them. */
import { BORROW_RATIO } from "../core/borrow.js";
import {
  idleMs,
  isRefused,
  isReportDue,
  type LeaseMessage,
  type LeaseOptions,
  type LeaseSituation,
  needsRefill,
  planSync,
  reportIntervalMs,
  returnAll,
  spentTokens,
} from "../core/lease.js";
import { type Account, isShort } from "./account.js";
import { type NodeOptions, type NodeState, urge } from "./node.js";
import type { ReplyToWaiters } from "./waiters.js";

/** A node sends a message at least this often. */
export const HEARTBEAT_MS = 1000;
export const MAX_APPS_PER_MESSAGE = 400;

/** The reply about one account. */
export interface SyncReply {
  code: string;
  /** Cumulative in the node's epoch. */
  granted: number;
  remaining: number;
  limit: number;
  retryAfterMs: number;
  /** The bucket is not well filled. */
  scarce: boolean;
  /** Tokens per second that the bucket gains, from a service that may have a newer configuration; unset by a store. */
  rate?: number | undefined;
}

/** One account in a message. */
export interface PlannedSync<A extends Account = Account> {
  account: A;
  message: LeaseMessage;
  /** Cost of the first waiter: a refusal holds for requests that cost at least this much. */
  firstCost: number;
  /** Asks for more than the first waiter. */
  greedy: boolean;
  /** Asks for less than all waiters, because the store is not expected to have that much. */
  partial: boolean;
  /** The options when it was sent. After a change, a refusal in the reply no longer counts. */
  options: NodeOptions;
  /** Set by the host when the reply has arrived. */
  reply: SyncReply | undefined;
  /** What the reply means for waiters; undefined if they are not served. */
  toWaiters: ReplyToWaiters | undefined;
}

/** The store knows everything about the account, and this node knows everything that the store has granted. */
function isReported({ sync, lease, cell }: Account): boolean {
  return (
    !sync.unanswered && spentTokens(lease, cell) === sync.reportedSpent && lease.returned === sync.reportedReturned
  );
}

/** The store keeps counters of the limit that it deletes after a final report. */
function needsFinalReport({ limits, lease }: Account): boolean {
  return limits.fillSeconds !== undefined && lease.granted > 0;
}

function isDue(node: NodeState, account: Account, situation: LeaseSituation): boolean {
  const { sync, lease, cell } = account;
  const { options, now } = situation;
  if (node.epochClosed) return sync.unanswered;
  const hasRefunds = account.refunds.get() !== 0;
  const unreported = cell.get() !== 0 || hasRefunds || !isReported(account);
  if (account.leaving) return unreported || needsFinalReport(account);
  // Returned tokens and lost messages do not wait for the next report: other nodes may need the tokens.
  if (sync.unanswered || lease.returned !== sync.reportedReturned) return true;
  if (sync.recalled && unreported) return true;
  sync.recalled = false;
  if (isReportDue(lease, cell, situation)) return true;
  if (hasRefunds && now - lease.reportedAt >= reportIntervalMs(situation)) return true;
  const short = isShort(account, now);
  if (account.waitingCost > 0) return !short;
  if (now - lease.activeAt >= idleMs(situation)) return unreported;
  return !short && needsRefill(lease, cell, options) && !isRefused(lease, 1, now);
}

/** The account has nothing to report until it is used again. */
function isAtRest(node: NodeState, account: Account, now: number): boolean {
  const idle = now - account.lease.activeAt >= node.options.lease.idleMs;
  const { cell, refunds, waitingCost } = account;
  return account.leaving || (idle && cell.get() === 0 && refunds.get() === 0 && waitingCost === 0);
}

/** An account whose tokens are plentiful, and which is not urgent, is examined this often. */
const LOOK_MS = 1000;

/** The accounts of the next message: the urgent ones, and once per sync interval all that are due. */
export function planMessage<A extends Account>(node: NodeState<A>, now: number): PlannedSync<A>[] {
  const { lease: options } = node.options;
  const situation: LeaseSituation = {
    options,
    level: node.level,
    plentiful: true,
    gain: 0,
    capacity: 0,
    isLimit: false,
    now,
  };
  const planned: PlannedSync<A>[] = [];
  const urgent = node.urgent;
  node.clock = now;
  node.urgent = [];
  node.departed = [];
  for (const account of urgent) account.urgent = false;
  // A message has room for some accounts only: requests must not wait for accounts of which none waits.
  for (const account of urgent) if (account.waitingCost > 0) planIfDue(node, account, situation, planned);
  for (const account of urgent) if (account.waitingCost <= 0) planIfDue(node, account, situation, planned);
  const untilScan = node.scanAt - now;
  if (untilScan <= 0 || untilScan > options.syncIntervalMs) {
    node.scanAt = now + options.syncIntervalMs;
    scan(node, situation, planned);
  }
  return planned;
}

/** Busy accounts are examined more often, so that they report after `batchThreshold` tokens. */
function lookAfterMs({ lease }: Account, { batchThreshold, syncIntervalMs }: LeaseOptions): number {
  const spentAfterMs = (batchThreshold * 1000) / Math.max(lease.spendRate, 1);
  return Math.min(Math.max(spentAfterMs, syncIntervalMs), LOOK_MS);
}

/** Adds an account to the message if it is due; to the next one, if there is no room or it waits. True if it is due. */
function planIfDue<A extends Account>(
  node: NodeState<A>,
  account: A,
  situation: LeaseSituation,
  planned: PlannedSync<A>[],
): boolean {
  const { now, options } = situation;
  const { limits, sync } = account;
  situation.isLimit = limits.fillSeconds !== undefined;
  // A recall counts even if the record of a shared account, which is from before it, was read since.
  situation.plentiful = sync.plentiful && !sync.recalled;
  situation.gain = limits.guaranteed;
  situation.capacity = Math.min(limits.burst, sync.limit);
  if (!isDue(node, account, situation)) {
    account.lookAt =
      now + (situation.plentiful && !account.leaving ? lookAfterMs(account, options) : options.syncIntervalMs);
    // Waiters ask again when the gap after a short reply is over.
    if (account.waitingCost > 0) urge(node, account);
    return false;
  }
  account.lookAt = now + options.syncIntervalMs;
  if (planned.length < MAX_APPS_PER_MESSAGE) planned.push(planAccount(node, account, situation));
  else urge(node, account);
  return true;
}

/** Examines the active accounts. Those at rest leave the list. */
function scan<A extends Account>(node: NodeState<A>, situation: LeaseSituation, planned: PlannedSync<A>[]): void {
  const { now } = situation;
  const active: A[] = [];
  for (const account of node.active) {
    const untilLook = account.lookAt - now;
    const looks = untilLook <= 0 || untilLook > LOOK_MS + situation.options.syncIntervalMs;
    if (!looks || planIfDue(node, account, situation, planned) || !isAtRest(node, account, now)) {
      active.push(account);
    } else {
      account.active = false;
      if (account.leaving) node.departed.push(account);
    }
  }
  node.active = active;
}

/** Whether a message has to be sent, if only as a sign of life. */
export function isMessageDue(node: NodeState, planned: PlannedSync[], now: number): boolean {
  if (planned.length > 0) return true;
  // The first shard knows all nodes, the others those that use them.
  if (node.shard > 0 && node.active.length === 0) return false;
  const elapsed = now - node.lastContact;
  return node.lastContact === 0 || elapsed < 0 || elapsed >= HEARTBEAT_MS;
}

/** Whether the store counts tokens as held by this node. */
function holdsTokens({ active }: NodeState): boolean {
  for (const { lease, sync } of active) if (lease.granted - lease.returned > sync.reportedSpent) return true;
  return false;
}

/** The first shard that replies, beginning with one that depends on the epoch: so nodes poll different shards. */
function polledShard({ peers }: NodeState): NodeState {
  const { epoch } = peers[0]!;
  const start = epoch - Math.floor(epoch / peers.length) * peers.length;
  for (let i = 0; i < peers.length; i++) {
    const at = start + i;
    const one = peers[at < peers.length ? at : at - peers.length]!;
    if (one.failuresInARow === 0) return one;
  }
  return peers[start]!;
}

/**
 * Whether a message has to be sent to learn of recalls, by a host that learns of them from replies only: one message per
 * sync interval while it holds tokens. Replies tell of recalls on all shards, so only one of them is asked.
 */
export function isPollDue(node: NodeState, now: number): boolean {
  if (polledShard(node) !== node) return false;
  let holds = false;
  for (const one of node.peers) holds = holds || holdsTokens(one);
  if (!holds) return false;
  // Less than an interval, because the last reply came some time after the beginning of the interval.
  const elapsed = now - node.lastContact;
  return elapsed < 0 || elapsed >= node.options.lease.syncIntervalMs / 2;
}

/** Numbers a message that is about to be sent. */
export function startMessage(node: NodeState, planned: PlannedSync[]): void {
  node.seq = node.seq + 1;
  node.syncs = node.syncs + 1;
  for (const one of planned) one.account.sync.unanswered = true;
}

function planAccount<A extends Account>(node: NodeState<A>, account: A, situation: LeaseSituation): PlannedSync<A> {
  if (account.finalReport !== undefined) return plannedReport(node, account, account.finalReport);
  if (account.leaving) {
    const planned = planReturn(node, account);
    // By the message, because other workers may change a shared balance meanwhile.
    const { granted, spent, returned } = planned.message;
    if (needsFinalReport(account) && granted === spent + returned) account.finalReport = planned.message;
    return planned;
  }
  const { sync, lease, syncCell, limits, waiters, waitingCost } = account;
  returnRefunds(account);
  sync.recalled = false;
  for (const waiter of waiters) waiter.inMessage = true;
  const first = waiters[0];
  const firstCost = first === undefined ? 0 : first.outcome.cost;
  // Ask for all waiters at once, as far as the store is likely to have the tokens; after a refusal for the first only.
  const borrowed = limits.borrow ? BORROW_RATIO : 0;
  const likely = sync.remaining + ((situation.now - sync.repliedAt) / 1000 + borrowed) * limits.guaranteed;
  const expected = Math.floor(Math.min(waitingCost, likely + Math.max(syncCell.get(), 0)));
  const nextCost = sync.firstOnly ? firstCost : Math.max(firstCost, expected);
  const message = planSync(lease, syncCell, { nextCost, waitingCost }, situation);
  const planned = plannedReport(node, account, message);
  planned.firstCost = firstCost;
  planned.greedy = nextCost > firstCost;
  planned.partial = nextCost < waitingCost;
  return planned;
}

/** A message that returns all tokens and asks for none. */
export function planReturn<A extends Account>(node: NodeState<A>, account: A): PlannedSync<A> {
  const { lease, syncCell } = account;
  returnRefunds(account);
  returnAll(lease, syncCell);
  return plannedReport(node, account, {
    granted: lease.granted,
    spent: Math.max(spentTokens(lease, syncCell), 0),
    returned: lease.returned,
    need: 0,
    want: 0,
  });
}

/** The account needs a last message when the node shuts down. After a final report it holds nothing. */
export function isReturnDue({ finalReport, lease, cell, sync }: Account): boolean {
  return finalReport === undefined && (lease.granted > 0 || cell.get() !== 0 || sync.unanswered);
}

function plannedReport<A extends Account>(node: NodeState<A>, account: A, message: LeaseMessage): PlannedSync<A> {
  const { options } = node;
  const { sync } = account;
  sync.sentSpent = sync.unanswered ? Math.max(sync.sentSpent, message.spent) : message.spent;
  return {
    account,
    message,
    firstCost: 0,
    greedy: false,
    partial: false,
    options,
    reply: undefined,
    toWaiters: undefined,
  };
}

/**
 * Applies the refunds that were not added to the balance. Spending without a grant that the store does not know is reduced.
 * Otherwise tokens are returned, but never more than were granted: the store rejects such a message. Refunds of overdraft
 * that was reported stay until a reply counts it as granted. Those of a closed epoch have nothing to be deducted from,
 * and are dropped.
 */
function returnRefunds({ lease, sync, syncCell, refunds }: Account): void {
  const tokens = refunds.get();
  const balance = syncCell.get();
  const spent = lease.granted - lease.returned - balance;
  if (tokens > 0) {
    const overdrawn = Math.max(0 - balance, 0);
    const unknown = sync.unanswered ? 0 : Math.max(spent - sync.reportedSpent, 0);
    const reduced = Math.min(tokens, overdrawn, unknown);
    const covered = Math.max(Math.min(spent - reduced, lease.granted - lease.returned), 0);
    const returned = Math.min(tokens - reduced, covered);
    const kept = overdrawn > reduced ? tokens - reduced - returned : 0;
    refunds.add(kept - tokens);
    if (reduced > 0) syncCell.add(reduced);
    lease.returned = lease.returned + returned;
    // The rate of spending is measured without refunds.
    lease.spentAtReport = lease.spentAtReport - reduced - returned;
  }
  if (spent < 0) syncCell.add(spent);
}
