/** Corrects the estimated cost of a finished exchange, learns from its sizes, and takes back tokens that were not needed. */
import { OK } from "../core/codes.js";
import { learnedSizes, learnSizes, payableBytes, price, settlement } from "../core/cost.js";
import { settleTokens, spentTokens } from "../core/lease.js";
import type { Account, Outcome } from "./account.js";

/**
 * An admitted exchange has ended. Returns the tokens charged (positive) or refunded (negative). In a dry run, nothing was
 * taken for a request with another code than OK, so nothing is settled.
 */
export function settleExchange(
  account: Account,
  { method, cost, code }: Pick<Outcome, "method" | "cost" | "code">,
  requestBytes: number,
  responseBytes: number,
): number {
  const { profile, burst } = account.limits;
  const mostBytes = payableBytes(profile, method, burst);
  learnSizes(learnedSizes(account.learned, method), requestBytes, responseBytes, mostBytes);
  if (code !== OK) return 0;
  const difference = settlement(cost, price(profile, method, requestBytes + responseBytes));
  settleTokens(account.lease, account.cell, difference);
  return difference;
}

/** Refunds tokens, at most as many as this node has spent. */
export function refund(account: Account, tokens: number): void {
  const spent = Math.max(spentTokens(account.lease, account.cell), 0);
  settleTokens(account.lease, account.cell, 0 - Math.min(tokens, spent));
}
