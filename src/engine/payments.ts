/** Takes the tokens of requests from the accounts of a host, corrects them when exchanges end, and gives back those of refused ones. */
import { OK } from "../core/codes.js";
import type { Account, Outcome } from "./account.js";
import { DECIDED_SYNC, decide, decideCost, decideMiss, isLow, MISSED, WAIT } from "./decide.js";
import type { Host } from "./host.js";
import { activate } from "./node.js";
import { refund } from "./settle.js";
import { ALL_TAKEN, allAllowed, refuseTogether, takeTogether } from "./together.js";

/** Decides about a prepared request. True if it has to wait. */
export function payEstimate<A extends Account>(host: Host<A>, outcome: Outcome<A>, contentLength: number): boolean {
  return ended(host, outcome, decide(outcome.account.node, outcome, contentLength));
}

/** As `payEstimate`, for a cost that the caller states. */
export function payCost<A extends Account>(host: Host<A>, outcome: Outcome<A>, cost: number): boolean {
  return ended(host, outcome, decideCost(outcome.account.node, outcome, cost));
}

function ended<A extends Account>(host: Host<A>, outcome: Outcome<A>, step: number): boolean {
  if (step === MISSED) return mustWait(host, outcome);
  if (step === DECIDED_SYNC) host.wantTokens(outcome.account);
  return false;
}

/** The lease cannot pay: decides, or returns true if the outcome has to wait. */
function mustWait<A extends Account>(host: Host<A>, outcome: Outcome<A>): boolean {
  const { account } = outcome;
  host.refresh(account);
  const step = decideMiss(account.node, outcome, host.nowMs());
  if (step === DECIDED_SYNC) host.wantTokens(account);
  return step === WAIT;
}

/** Tokens were taken from a lease, which now has this balance: it is refilled in time. */
export function spent<A extends Account>(host: Host<A>, account: A, balance: number): void {
  const { node } = account;
  if (!account.active) activate(node, account);
  if (isLow(node, account, balance)) host.wantTokens(account);
}

/**
 * The leases cannot pay for a request together, or a value is denied: decides its outcomes, or returns those that have to wait. When these
 * are decided, `endTogether` follows.
 */
export function payTogether<A extends Account>(host: Host<A>, outcomes: readonly Outcome<A>[]): Outcome<A>[] {
  const waiting: Outcome<A>[] = [];
  for (const { account } of outcomes) host.refresh(account);
  if (refuseTogether(outcomes, host.nowMs())) return waiting;
  for (const outcome of outcomes) {
    // A dry run of a denied value, or of a cost that the limit can never pay, is decided.
    if (outcome.code === OK) {
      if (takeTogether([outcome]) === ALL_TAKEN) spent(host, outcome.account, outcome.balance);
      else if (mustWait(host, outcome)) waiting.push(outcome);
    }
  }
  if (waiting.length === 0) endTogether(host, outcomes);
  return waiting;
}

/** All outcomes are decided. A refused request uses nothing. */
export function endTogether<A extends Account>(host: Host<A>, outcomes: readonly Outcome<A>[]): void {
  if (!allAllowed(outcomes)) giveBackPaid(host, outcomes);
}

/** Gives back what these outcomes have paid. */
export function giveBackPaid<A extends Account>(host: Host<A>, outcomes: readonly Outcome<A>[]): void {
  for (const { account, code, cost } of outcomes) {
    if (code === OK && cost > 0) giveBack(host, host.currentAccount(account), cost);
  }
}

/** Gives back tokens, at most as many as this node has spent. */
export function giveBack<A extends Account>(host: Host<A>, account: A, tokens: number): void {
  refund(account, tokens);
  corrected(host, account, 0 - tokens);
}

/** Tokens of an exchange were charged (positive) or given back (negative) when it ended. */
export function corrected<A extends Account>(host: Host<A>, account: A, difference: number): void {
  if (difference === 0) return;
  if (difference < 0) host.refunded(account);
  spent(host, account, account.cell.get());
}
